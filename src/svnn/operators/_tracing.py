"""When the fast paths have to stand aside: torch compiles or exports the code, or transforms its functions.

Code that torch compiles can read no numbers, so nothing is checked and nothing is kept there. ``torch.export`` writes a
program that others run without svnn, and ``torch.func`` knows the derivatives of torch's own operations only.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad


def exporting() -> bool:
    """Say whether ``torch.export`` runs this code."""
    found = getattr(torch.compiler, "is_exporting", None)  # which torch 2.4 does not have
    return torch.compiler.is_compiling() and (found is None or bool(found()))


def compiling() -> bool:
    """Say whether ``torch.compile`` traces this code."""
    return torch.compiler.is_compiling() and not exporting()


def transformed() -> bool:
    """Say whether a transform of ``torch.func``, or a derivative in forward mode, is under way."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def unreadable(tensor: Tensor) -> bool:
    """Say whether the numbers of a tensor cannot be looked at: torch traces the code, or it stands for others."""
    return torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def traced() -> bool:
    """Say whether there are no numbers to look at, or only plain operations of torch may run."""
    return torch.compiler.is_compiling() or transformed()
