"""NVIDIA's NIXL as a transfer engine: UCX over shared memory, TCP or RDMA, as it finds them."""

from __future__ import annotations

import logging
import os
import secrets
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Literal, TypeAlias
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from .blocks import check_blocks
from .engine import Blocks, EngineError, EngineUnavailable, Span, WriteState

__all__ = ["MemoryKind", "NixlEngine"]

MemoryKind: TypeAlias = Literal["DRAM", "VRAM"]
"""What NIXL calls host memory and device memory."""

_PACKAGES = ("nixl_cu12", "nixl_cu13")
"""Where wheels put NIXL's Python interface, by the CUDA that they need on GPUs alone."""

_LOG_LEVELS = ("NIXL_LOG_LEVEL", "UCX_LOG_LEVEL")
_STATES: dict[str, WriteState] = {"DONE": "done", "PROC": "moving", "ERR": "failed"}


class NixlEngine:
    """`TransferEngine` of one NIXL agent with one backend.

    `memory` is where registered bytes are, on device `device_id`. NIXL and UCX say
    what they do where `NIXL_LOG_LEVEL` or `UCX_LOG_LEVEL` is set; else nothing is printed.

    :raises EngineUnavailable: where NIXL or the backend is not installed.
    """

    kind = "nixl"

    def __init__(
        self, *, memory: MemoryKind = "DRAM", device_id: int = 0, backend: str = "UCX"
    ) -> None:
        self.name = f"nixl-{os.getpid()}-{secrets.token_hex(4)}"
        self._memory, self._device_id = memory, device_id
        api, self._errors = _nixl()
        with _told(f"agent with backend {backend}", self._errors), _quiet():
            config = api.nixl_agent_config(backends=[backend])
            self._agent: Any = api.nixl_agent(self.name, config)
        if backend not in self._agent.backends:
            found = ", ".join(self._agent.get_plugin_list())
            raise EngineUnavailable(f"nixl: no backend {backend} is installed, there are {found}")
        self._arrived: dict[str, deque[bytes]] = {}
        self._registered: set[_Registered] = set()
        self._writes: WeakSet[_Writing] = WeakSet()

    def register(self, spans: Sequence[Span], /) -> _Registered:
        rows = [(start, nbytes, self._device_id, "") for start, nbytes in spans if nbytes]
        with _told(f"register {len(rows)} spans", self._errors):
            held = self._agent.register_memory(rows, self._memory) if rows else None
        return _Registered(self._agent, held, self._errors, self._registered)

    def metadata(self) -> bytes:
        with _told("metadata", self._errors):
            made: bytes = self._agent.get_agent_metadata()
        return made

    def connect(self, metadata: bytes, /) -> str:
        with _told("connect: what came is no NIXL agent's metadata", self._errors):
            peer: str = self._agent.add_remote_agent(metadata).decode()
        self._arrived.setdefault(peer, deque())
        return peer

    def disconnect(self, peer: str, /) -> None:
        if self._arrived.pop(peer, None) is not None:
            with _told(f"disconnect {peer}", self._errors):
                self._agent.remove_remote_agent(peer)

    def write(self, peer: str, local: Blocks, remote: Blocks, notification: bytes, /) -> _Writing:
        asked = f"write to {peer}"
        check_blocks(f"nixl: {asked}", local, remote)
        if peer not in self._arrived:
            raise EngineError(f"nixl: {asked}: it is not connected")
        if not len(local):
            with _told(asked, self._errors):
                self._agent.send_notif(peer, notification)
            return _Writing(self._agent, None, "done", self._errors)
        with _told(asked, self._errors):
            ends = [
                self._agent.get_xfer_descs(self._rows(b), self._memory) for b in (local, remote)
            ]
            handle = self._agent.initialize_xfer("WRITE", *ends, peer, notification)
        made = _Writing(self._agent, handle, "moving", self._errors)
        self._writes.add(made)
        try:
            with _told(asked, self._errors):
                made.begin()
        except EngineError:
            made.release()
            raise
        return made

    def notifications(self, peer: str, /) -> list[bytes]:
        if peer not in self._arrived:
            raise EngineError(f"nixl: notifications of {peer}: it is not connected")
        with _told(f"notifications of {peer}", self._errors):
            came: dict[str, list[bytes]] = self._agent.get_new_notifs()
        for name, notifications in came.items():
            if name in self._arrived:
                self._arrived[name].extend(notifications)
        taken = list(self._arrived[peer])
        self._arrived[peer].clear()
        return taken

    def close(self) -> None:
        """Let go of all of it, whatever NIXL says of a part; who keeps a write keeps no thread.

        :raises EngineError: the first that came of it.
        """
        with ExitStack() as all_of_it:
            all_of_it.callback(self._forget_agent)
            for registration in list(self._registered):
                all_of_it.callback(registration.release)
            for write in list(self._writes):  # in reverse: before the registrations
                all_of_it.callback(write.release)
            for peer in list(self._arrived):
                all_of_it.callback(self.disconnect, peer)

    def _forget_agent(self) -> None:
        self._agent = None  # its threads end with it

    def _rows(self, blocks: Blocks) -> NDArray[np.uint64]:
        rows = np.full((len(blocks), 3), self._device_id, np.uint64)
        rows[:, :2] = blocks
        return rows


class _Registered:
    def __init__(
        self,
        agent: Any,
        held: Any,
        errors: tuple[type[Exception], ...],
        all_of_them: set[_Registered],
    ) -> None:
        self._agent: Any = agent
        self._held: Any = held
        self._errors, self._all = errors, all_of_them
        all_of_them.add(self)

    def release(self) -> None:
        agent, held = self._agent, self._held
        self._agent = self._held = None
        self._all.discard(self)
        if held is not None:
            with _told("deregister memory", self._errors):
                agent.deregister_memory(held)


class _Writing:
    def __init__(
        self, agent: Any, handle: Any, state: WriteState, errors: tuple[type[Exception], ...]
    ) -> None:
        self._agent: Any = agent
        self._handle: Any = handle
        self._state: WriteState = state
        self._errors = errors

    def begin(self) -> None:
        self._state = _STATES[self._agent.transfer(self._handle)]

    def state(self) -> WriteState:
        if self._state == "moving" and self._handle is not None:
            try:
                self._state = _STATES[self._agent.check_xfer_state(self._handle)]
            except self._errors:  # NIXL raises where the peer has gone
                self._state = "failed"
        return self._state

    def release(self) -> None:
        agent, handle = self._agent, self._handle
        self._agent = self._handle = None
        if handle is not None:
            with _told("release a write", self._errors):
                agent.release_xfer_handle(handle)


def _nixl() -> tuple[Any, tuple[type[Exception], ...]]:
    """NIXL's Python interface, and every error of its own: they have no class in common."""
    for package in _PACKAGES:
        try:
            with _quiet():
                api = import_module(f"{package}._api")
        except ImportError as error:  # of the package, or of what it needs
            if isinstance(error, ModuleNotFoundError) and error.name == package:
                continue
            raise EngineUnavailable(f"nixl: {package} cannot be imported: {error}") from error
        found = vars(import_module(f"{package}._bindings")).values()
        errors = [each for each in found if isinstance(each, type) and issubclass(each, Exception)]
        return api, (*errors, RuntimeError)
    raise EngineUnavailable("nixl is not installed: pip install 'kvproto[transfer]'")


@contextmanager
def _quiet() -> Generator[None]:
    """Both read how much to print when they are loaded, and print on stdout too."""
    unset = [name for name in _LOG_LEVELS if not os.environ.get(name)]
    os.environ.update(dict.fromkeys(unset, "FATAL"))
    try:
        yield
    finally:
        for name in unset:
            del os.environ[name]
    if _LOG_LEVELS[0] in unset:
        logging.getLogger("nixl").setLevel(logging.CRITICAL)


@contextmanager
def _told(asked: str, errors: tuple[type[Exception], ...]) -> Generator[None]:
    try:
        yield
    except errors as error:
        raise EngineError(f"nixl: {asked}: {error}") from error
