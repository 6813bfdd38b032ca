from __future__ import annotations

import sys
from pathlib import Path

# Workers are other processes, and import the toys by name.
sys.path.insert(0, str(Path(__file__).parent))
