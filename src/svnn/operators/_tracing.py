"""Modules whose tensors are plain attributes, and when fast paths have to stand aside.

They stand aside where torch compiles or exports the code, or transforms its functions. Code that torch compiles can
read no numbers, so nothing is checked and nothing is kept there. ``torch.export`` writes a program that others run
without svnn, and ``torch.func`` knows the derivatives of torch's own operations only.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad


def compiling() -> bool:
    """Return whether ``torch.compile`` traces this code, and not ``torch.export``."""
    exporting = getattr(torch.compiler, "is_exporting", None)  # which torch 2.4 does not have
    return torch.compiler.is_compiling() and exporting is not None and not exporting()


def unreadable(tensor: Tensor) -> bool:
    """Return whether the numbers of a tensor cannot be looked at: torch traces the code, or it stands for others."""
    return torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def traced() -> bool:
    """Return whether there are no numbers to look at, or only plain operations of torch may run.

    That is so where torch compiles the code, in a transform of ``torch.func``, and for derivatives in forward mode.
    """
    if torch.compiler.is_compiling():  # asked first: torch does not compile the other questions
        return True
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


class TensorModule(nn.Module):
    """A module in which every tensor that is assigned is a buffer, and every ``nn.Parameter`` a parameter.

    Subclasses need not call ``super().__init__()``. Their ``to`` returns another module, and so do ``float``,
    ``double`` and the like; a module that holds one moves and casts it in place, as torch does.

    Examples
    --------
    >>> class Matrix(TensorModule):
    ...     def __init__(self, values):
    ...         self.values = values
    >>> list(Matrix(torch.eye(2)).state_dict()), list(dict(Matrix(nn.Parameter(torch.eye(2))).named_parameters()))
    (['values'], ['values'])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        module = super().__new__(cls)
        if not torch.compiler.is_compiling():
            nn.Module.__init__(module)
        return module

    def __init__(self) -> None:
        pass  # __new__ has done it

    def __setattr__(self, name: str, value: Any) -> None:
        if torch.compiler.is_compiling():  # the module lives as long as the compiled call
            object.__setattr__(self, name, value)
        elif isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
            self._parameters.pop(name, None)
            self._buffers[name] = value
        else:
            super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that is copied and pickled: without kept results, and with dictionaries of its own."""
        return {k: copy.copy(v) if isinstance(v, dict) else v for k, v in self.__dict__.items() if k != "_memo"}

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        self.__dict__.pop("_memo", None)
        return super()._apply(*args, **kwargs)

    def float(self) -> Self:
        return self.to(torch.float32)

    def double(self) -> Self:
        return self.to(torch.float64)

    def half(self) -> Self:
        return self.to(torch.float16)

    def bfloat16(self) -> Self:
        return self.to(torch.bfloat16)

    def cpu(self) -> Self:
        return self.to("cpu")

    def cuda(self, device: int | torch.device | None = None) -> Self:
        return self.to(torch.device("cuda", device) if isinstance(device, int) else device or "cuda")

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, metadata: Any, strict: bool, missing: list[str],
        unexpected: list[str], errors: list[str],
    ) -> None:  # fmt: skip
        """Load buffers of any size that fit together; the tensors before may be shared, and are not written to."""
        before = dict(self._buffers)
        for name, own in before.items():
            given = state_dict.get(prefix + name)
            if isinstance(given, Tensor) and own is not None:
                self._buffers[name] = torch.empty(given.shape, dtype=own.dtype, device=own.device)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)
        try:
            self._check_tensors()
        except (RuntimeError, ValueError) as error:
            self._buffers.update(before)
            errors.append(f"{prefix.removesuffix('.') or type(self).__name__}: {error}")

    def _check_tensors(self) -> None:
        """Raise a RuntimeError or ValueError where the tensors do not fit together."""
