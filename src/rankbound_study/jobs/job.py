"""The metrics of training jobs: those of every topic, those of every epoch, and the one that judges."""

from rankbound.metrics import Metric, metric
from rankbound_study.config.job import TrainingJob
from rankbound_study.vocabulary import JUDGED_BY

# Metric columns of the runs table, one value per topic.
RUN_METRICS = (
    "nDCG",
    "AP",
    "RR",
    "nRBP(p=0.8)",
    "nRBP(p=0.9)",
    "nRBP(p=0.95)",
    "P@5",
    "P@10",
    "PairAccuracy",
    *(f"nDCG@{k}" for k in range(1, 21)),
)

# Metrics whose means are kept for every epoch and part, of bounded runs and of methods.
EPOCH_METRICS = ("nDCG", "AP", "nRBP(p=0.95)")
METHOD_EPOCH_METRICS = ("nDCG@10", "AP", "PairAccuracy")


def judge_of(job: TrainingJob) -> Metric:
    """Return the metric that selects an epoch, and that tables show."""
    return metric(job.judged_by or JUDGED_BY.get(job.loss, job.loss))


def epoch_metrics(job: TrainingJob) -> list[Metric]:
    """Return the metrics whose means are kept for every epoch and part."""
    usual = METHOD_EPOCH_METRICS if job.method else EPOCH_METRICS
    return [metric(name) for name in dict.fromkeys((*usual, *filter(None, [job.judged_by])))]
