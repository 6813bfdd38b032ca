"""Detect forward hooks: fused paths are skipped where there are any."""

from __future__ import annotations

from torch import nn

_OWN = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_EVERYWHERE = tuple(f"_global{name}" for name in _OWN)


def watched(*parts: nn.Module) -> bool:
    """Return whether a hook, or a ``forward`` that was put in the place of a part's own, has to be called.

    Examples
    --------
    >>> layer = nn.ReLU()
    >>> watched(layer), bool(layer.register_forward_hook(print)), watched(layer)
    (False, True, True)
    """
    if any(getattr(nn.modules.module, name) for name in _EVERYWHERE):
        return True
    for part in parts:
        own = part.__dict__
        if own[_OWN[0]] or own[_OWN[1]] or own[_OWN[2]] or own[_OWN[3]] or "forward" in own:
            return True
    return False
