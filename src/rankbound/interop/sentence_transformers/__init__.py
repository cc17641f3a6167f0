"""Rerankers: any loss for the `CrossEncoderTrainer` of sentence-transformers, and an evaluator with any metric.

Needs the extra `rerankers`.
"""

from rankbound.io.files import needs_extra

with needs_extra("rerankers"):
    from rankbound.interop.sentence_transformers.evaluator import RerankingEvaluator
    from rankbound.interop.sentence_transformers.loss import ListwiseLoss

__all__ = ["ListwiseLoss", "RerankingEvaluator"]
