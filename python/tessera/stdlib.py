# SPDX-License-Identifier: Apache-2.0
"""Parts of models for programs in Python syntax. Made of library.def by tests/language/library.py --update."""
# flake8: noqa
# pylint: skip-file
from __future__ import annotations

from typing import Any

from ._language import call


def flash_attention(q: Any, cache: Any = None, dropout: Any = None, causal: Any = None) -> Any:
    """Attention over a cache, with merged heads: [batch, length, heads * width]."""
    return call('flash_attention', (q, cache, dropout, causal, ), {})


def residual(x: Any, y: Any = None, dropout: Any = None) -> Any:
    """X + dropout(y)."""
    return call('residual', (x, y, dropout, ), {})


def split_qkv(qkv: Any, heads: Any = None) -> Any:
    """Q, k and v of [batch, heads, length, width] from one product."""
    return call('split_qkv', (qkv, heads, ), {})


__all__ = ['flash_attention', 'residual', 'split_qkv']
