"""Shapes in the signatures of the model are executed in every test, so a wrong one cannot stay."""
import importlib
import inspect
import pkgutil
import sys

import pytest
import torch
from jaxtyping import TypeCheckError

import transformer_lab.model

MODULES = [module.name for module in pkgutil.walk_packages(transformer_lab.model.__path__, "transformer_lab.model.")]
WRONG_MODULE = '''
from jaxtyping import Float
from torch import Tensor

def last_row(x: Float[Tensor, "query key"]) -> Float[Tensor, "query"]:
    if x.ndim != 2:
        raise ValueError(f"x must be (query, key), not {tuple(x.shape)}")
    return x[-1]
'''


@pytest.fixture
def wrong_module(tmp_path, monkeypatch):
    """A module of the model whose annotation says (query,) and whose code returns (key,)."""
    (tmp_path / "wrong_shape.py").write_text(WRONG_MODULE)
    monkeypatch.setattr(transformer_lab.model, "__path__", [*transformer_lab.model.__path__, str(tmp_path)])
    yield importlib.import_module("transformer_lab.model.wrong_shape")
    del sys.modules["transformer_lab.model.wrong_shape"], transformer_lab.model.wrong_shape


def test_a_wrong_annotation_fails(wrong_module):
    assert wrong_module.last_row(torch.zeros(3, 3)).shape == (3,)  # the sizes agree by accident
    with pytest.raises(TypeCheckError, match="return"):
        wrong_module.last_row(torch.zeros(2, 3))


def test_an_argument_of_the_wrong_shape_fails(wrong_module):
    with pytest.raises(TypeCheckError, match="parameters"):
        wrong_module.last_row(torch.zeros(3))


def test_plain_errors_leaves_the_complaint_to_the_library(wrong_module, plain_errors):
    with pytest.raises(ValueError, match="must be"):
        wrong_module.last_row(torch.zeros(3))


def public_functions(module) -> list[tuple[str, object]]:
    """Public functions of a module and public methods of its classes, with `forward` and `__init__`."""
    found = []
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):
            methods = [(n, m) for n, m in vars(value).items() if inspect.isfunction(m) and not n.startswith("_")]
            found += [(f"{name}.{n}", method) for n, method in methods]
        elif inspect.isfunction(value):
            found.append((name, value))
    return found


@pytest.mark.parametrize("name", MODULES)
def test_every_tensor_in_a_public_signature_has_a_shape(name):
    module = importlib.import_module(name)
    for function_name, function in public_functions(module):
        signature = inspect.signature(function)
        for parameter in list(signature.parameters.values()):
            if parameter.name in ("self", "cls"):
                continue
            assert parameter.annotation is not parameter.empty, f"{name}.{function_name}: annotate {parameter.name}"
            assert parameter.annotation is not torch.Tensor, (
                f"{name}.{function_name}: give {parameter.name} a shape, such as Float[Tensor, 'query key']"
            )
        assert signature.return_annotation is not signature.empty, f"{name}.{function_name}: annotate what it returns"
        assert signature.return_annotation is not torch.Tensor, f"{name}.{function_name}: give the result a shape"
