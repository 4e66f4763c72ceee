import itertools

import pytest
import torch

from hf_xmtc.models import label_products
from hf_xmtc.models.label_products import add_outer_product, product, transposed_product


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def layouts(rows: int, width: int) -> dict[str, torch.Tensor]:
    """One random matrix as blocks of label rows come: whole, a block of rows, a block of columns, transposed."""
    matrix = torch.randn(rows, width)
    wide = torch.randn(rows, width + 5)
    wide[:, 2 : 2 + width] = matrix
    return {
        "whole": matrix,
        "rows": torch.cat([torch.randn(3, width), matrix])[3:],
        "columns": wide[:, 2 : 2 + width],
        "transposed": matrix.t().contiguous().t(),
    }


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 48, 50])
def test_products_are_those_of_mm_for_every_layout(threads, rows):
    for width, documents in itertools.product((1, 5, 64), (1, 2, 7, 32)):
        torch.manual_seed(0)
        right, gradient = torch.randn(width, documents), torch.randn(rows, documents)
        for name, matrix in layouts(rows, width).items():
            # The other factor is a transposed view as often as not.
            for columns in (right, right.t().contiguous().t()):
                torch.testing.assert_close(
                    product(matrix, columns),
                    torch.mm(matrix, columns),
                    rtol=1e-5,
                    atol=1e-5,
                    msg=f"{name} · columns ({width}, {documents})",
                )
            for columns in (gradient, gradient.t().contiguous().t()):
                torch.testing.assert_close(
                    transposed_product(matrix, columns),
                    torch.mm(matrix.t(), columns),
                    rtol=1e-5,
                    atol=1e-5,
                    msg=f"{name}ᵀ · columns ({width}, {documents})",
                )


@pytest.mark.parametrize("rows", [1, 16, 50])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (-0.5, 1.0), (-0.5, 0.9), (2.0, 0.0)])
def test_an_outer_product_is_added_in_place_to_every_layout(threads, rows, alpha, beta):
    torch.manual_seed(0)
    left, right = torch.randn(rows, 4), torch.randn(4, 6)
    for name, matrix in layouts(rows, 6).items():
        expected = beta * matrix + alpha * left @ right
        if beta == 0.0:
            matrix.fill_(float("nan"))  # what a fresh matrix may hold
        add_outer_product(matrix, left, right, alpha=alpha, beta=beta)
        torch.testing.assert_close(matrix, expected, rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize(("rows", "documents"), [(0, 3), (16, 0), (17, 0), (0, 0)])
def test_nothing_times_something_is_zero(threads, rows, documents):
    matrix = torch.randn(rows, 8)
    assert product(matrix, torch.randn(8, documents)).shape == (rows, documents)
    assert torch.equal(transposed_product(matrix, torch.randn(rows, documents)), torch.zeros(8, documents))
    before = matrix.clone()
    add_outer_product(matrix, torch.randn(rows, documents), torch.randn(documents, 8))
    assert documents or torch.equal(matrix, before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types_keep_their_type(dtype):
    matrix, columns, gradient = torch.randn(16, 8).to(dtype), torch.randn(8, 3).to(dtype), torch.randn(16, 3).to(dtype)
    assert torch.equal(product(matrix, columns), torch.mm(matrix, columns))
    assert torch.equal(transposed_product(matrix, gradient), torch.mm(matrix.t(), gradient))


def test_without_onednn_the_numbers_are_the_same(monkeypatch):
    torch.manual_seed(0)
    matrix, columns, gradient = torch.randn(32, 8), torch.randn(8, 3), torch.randn(32, 3)
    assert torch.backends.mkldnn.is_available() == label_products._is_for_onednn(matrix, columns)
    fast = product(matrix, columns), transposed_product(matrix, gradient)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not label_products._is_for_onednn(matrix, columns)
    torch.testing.assert_close(fast, (product(matrix, columns), transposed_product(matrix, gradient)))
