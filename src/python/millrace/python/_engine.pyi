# The extension module: its classes and functions, whose arguments are defined by the sources in src/python/extension.
from typing import Any

class GraphBase:
    _nodes_by_name: dict[str, Any]
    _name_stack: str
    _slow_reasons: int
    _finalized: bool
    _control_flow_context: Any
    _names_in_use: Any
    _num_ids: int
    _handle: int
    def unique_name(self, name: Any, mark_as_used: bool = ...) -> str: ...
    def __getattr__(self, name: str) -> Any: ...

class OperationBase:
    _control_flow_context: Any
    _original_op: Any
    def __getattr__(self, name: str) -> Any: ...

class TensorBase:
    def __getattr__(self, name: str) -> Any: ...

class SessionBase:
    def __getattr__(self, name: str) -> Any: ...

def __getattr__(name: str) -> Any: ...
