"""A torch module whose tensors are plain attributes.

``nn.Module`` keeps tensors in dictionaries of its own, and every use of one is a call of ``__getattr__``: a small shift
took 1.3 of the time. Here the attributes are what is stored, and those dictionaries are views of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Self

import torch
from torch import Tensor, nn


class TensorModule(nn.Module):
    """A module in which every tensor that is assigned is a buffer, and every ``nn.Parameter`` a parameter.

    Subclasses need not call ``super().__init__()``. They have a ``to`` that returns another module, and so do
    ``float``, ``double`` and the like; a module that holds it moves and casts it in place, as torch does.

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
        pass  # all is done

    @property  # type: ignore[override]
    def _parameters(self) -> MutableMapping[str, Any]:
        return _Attributes(self, learned=True)

    @_parameters.setter
    def _parameters(self, empty: dict[str, Any]) -> None:
        """Take the dictionary that ``nn.Module`` starts with."""

    @property  # type: ignore[override]
    def _buffers(self) -> MutableMapping[str, Any]:
        return _Attributes(self, learned=False)

    @_buffers.setter
    def _buffers(self, empty: dict[str, Any]) -> None:
        """Take the dictionary that ``nn.Module`` starts with."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not torch.compiler.is_compiling() and (isinstance(value, nn.Module) or name in self._modules):
            super().__setattr__(name, value)
        else:
            object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled: no dictionary is shared, and what can be found again is left out."""
        state = {k: v for k, v in self.__dict__.items() if k != "_memo" and not (isinstance(v, dict) and not v)}
        return {k: copy.copy(v) if isinstance(v, dict) else v for k, v in state.items()}

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
        """Take buffers of any size from a state, where they make sense; those before may be shared and stay."""
        before = dict(self._buffers)
        for name, own in before.items():
            given = state_dict.get(prefix + name)
            if isinstance(given, Tensor):
                self.__dict__[name] = torch.empty(given.shape, dtype=own.dtype, device=own.device)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)
        try:
            self._check_tensors()
        except (RuntimeError, ValueError) as error:
            self.__dict__.update(before)
            errors.append(f"{prefix.removesuffix('.') or type(self).__name__}: {error}")

    def _check_tensors(self) -> None:
        """Raise a RuntimeError or ValueError where the tensors do not fit together."""


class _Attributes(MutableMapping[str, Any]):
    """The attributes of a module that are parameters, or those that are other tensors."""

    def __init__(self, module: TensorModule, learned: bool) -> None:
        self.held, self.learned = module.__dict__, learned

    def __contains__(self, name: object) -> bool:
        value = self.held.get(name)  # type: ignore[call-overload]
        return isinstance(value, Tensor) and isinstance(value, nn.Parameter) == self.learned

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self.held[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.held[name] = value

    def __delitem__(self, name: str) -> None:
        del self.held[name]

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self.held if name in self])

    def __len__(self) -> int:
        return len(list(iter(self)))
