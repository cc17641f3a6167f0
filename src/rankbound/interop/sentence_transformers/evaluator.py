"""An evaluator of `CrossEncoder`s with any metric, for `CrossEncoderTrainer` or by itself."""

import csv
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.cross_encoder import CrossEncoder

from rankbound.evaluation import POLICIES, Evaluation, Joined, aligned, shown, values_of
from rankbound.interop.sentence_transformers.samples import Sample, first_stage, reranked
from rankbound.metrics import Metric, metrics_of
from rankbound.texts import require_one_of

METRICS = ("nDCG@10", "RR@10", "AP")

logger = logging.getLogger(__name__)


class RerankingEvaluator(BaseEvaluator):  # type: ignore[misc,unused-ignore]
    """The mean metrics of a reranker over queries, by the rules of `rankbound.evaluate_run`.

    Metrics are averaged over the orders of tied documents. A relevant document that is not scored counts in a metric's
    normaliser. The values have the texts of the metrics as names, after `name` and an underscore.

    Args:
        samples: dictionaries with a `query` and one of these pairs of lists: `positive` and `negative` documents;
            `positive` and `documents`, all documents in the order of the first stage, whose metrics are then reported
            as `base_...`; or `documents` and `labels`, their relevance from 0. A document that the model scores twice
            counts twice.
        metrics: metrics or their texts; the first is `primary_metric`.
        undefined: queries on which a metric is undefined, mostly for lack of relevant documents, are skipped by its
            mean (`skip`) or count as 0 (`zero`, as in sentence-transformers).
        always_rerank_positives: add the positive documents that `documents` lacks to those that the model scores.
            Otherwise they count as not retrieved.
        name: the data set's name, for the values, the CSV file and the model card.
        prompt_name, batch_size, show_progress_bar: passed to `CrossEncoder.predict`.
        write_csv: append the values to `csv_file` in the folder of the call.

    Raises:
        ValueError: without samples or metrics, for a sample with other keys, labels below 0, a text that is positive
            and negative or has two labels, an unknown metric or an unknown policy.
    """

    def __init__(
        self,
        samples: Iterable[Mapping[str, Any]],
        metrics: str | Metric | Sequence[str | Metric] = METRICS,
        *,
        undefined: str = "skip",
        always_rerank_positives: bool = True,
        name: str = "",
        prompt_name: str | None = None,
        batch_size: int = 64,
        show_progress_bar: bool = False,
        write_csv: bool = True,
    ) -> None:
        super().__init__()
        require_one_of("undefined", undefined, POLICIES)
        self.metrics = metrics_of(metrics)
        if not self.metrics:
            raise ValueError("metrics: found none, expected at least one, such as nDCG@10")
        self.samples = [Sample.checked(one, place, always_rerank_positives) for place, one in enumerate(samples)]
        if not self.samples:
            raise ValueError("samples: found none, expected at least one query with documents")
        self.undefined, self.always_rerank_positives = undefined, always_rerank_positives
        self.name, self.prompt_name, self.batch_size = name, prompt_name, batch_size
        self.show_progress_bar, self.write_csv = show_progress_bar, write_csv
        texts = [str(one) for one in self.metrics]
        self.primary_metric: str = texts[0]
        self.greater_is_better = self.metrics[0].higher_is_better
        self.csv_file = f"{type(self).__name__}{'_' + name if name else ''}_results.csv"
        self.csv_headers = ["epoch", "steps", *texts]
        first = first_stage(self.samples)
        self.base = None if first is None else self._evaluation(first)

    def __call__(
        self, model: CrossEncoder, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the mean of each metric, and store it in the model card and a CSV file.

        Raises:
            ValueError: for a model with several outputs, scores that are NaN or infinite, or a CSV file of other
                metrics.
        """
        evaluation = self.evaluate(model)
        means, base = evaluation.means(), {} if self.base is None else self.base.means()
        when = "" if epoch == -1 else f", epoch {epoch}, step {steps}"
        logger.info("%s %s%s\n%s", type(self).__name__, self.name, when, _table(means, base))
        of_card = {key: f"{mean:.4f} ({mean - base[key]:+.4f})" if base else mean for key, mean in means.items()}
        self.store_metrics_in_model_card_data(model, self.prefix_name_to_metrics(of_card, self.name), epoch, steps)
        if output_path is not None and self.write_csv:
            self._append(Path(output_path), [epoch, steps, *means.values()])
        every = means | {f"base_{key}": mean for key, mean in base.items()}
        values: dict[str, float] = self.prefix_name_to_metrics(every, self.name)
        return values

    def evaluate(self, model: CrossEncoder) -> Evaluation:
        """Return the values of every query, named by its place among the samples: `0`, `1`, ...

        Raises:
            ValueError: for a model with several outputs, or scores that are NaN or infinite.
        """
        if model.num_labels != 1:
            raise ValueError(f"model: found {model.num_labels} outputs, expected 1")
        pairs = [[sample.query, text] for sample in self.samples for text in sample.documents]
        scores = model.predict(
            pairs,
            prompt_name=self.prompt_name,
            batch_size=self.batch_size,
            convert_to_numpy=True,
            show_progress_bar=self.show_progress_bar,
        )
        return self._evaluation(reranked(self.samples, scores))

    def get_config_dict(self) -> dict[str, Any]:
        """Return the parameters that change the values, for the model card."""
        return {
            "metrics": [str(one) for one in self.metrics],
            "undefined": self.undefined,
            "always_rerank_positives": self.always_rerank_positives,
        }

    def _evaluation(self, joined: Joined) -> Evaluation:
        return Evaluation(joined.topics, values_of(self.metrics, joined, self.undefined), missing=[], unjudged=[])

    def _append(self, folder: Path, row: Sequence[float]) -> None:
        """Append a row to the CSV file, after its header if it is new."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.csv_file
        with path.open("a+", newline="", encoding="utf-8") as file:
            file.seek(0)
            header = next(csv.reader(file), None)
            if header not in (None, self.csv_headers):
                raise ValueError(
                    f"{path}: found the columns {', '.join(header)}, expected {', '.join(self.csv_headers)}; remove "
                    "the file, or give the evaluator another name"
                )
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([self.csv_headers, row] if header is None else [row])


def _table(means: Mapping[str, float], base: Mapping[str, float]) -> str:
    """Return the means as a table, with those of the first stage if there is one."""
    if not base:
        return aligned([("metric", "mean"), *((key, shown(mean)) for key, mean in means.items())])
    rows = [(key, shown(base[key]), shown(mean)) for key, mean in means.items()]
    return aligned([("metric", "first stage", "reranked"), *rows])
