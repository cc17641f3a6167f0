# One training job per protocol, data set, model, loss and bounding, with all folds and seeds inside. It writes finished
# folds to a scratch folder beside its output, which no rule declares: they survive a failure, and a rerun resumes
# there.


RUNS = "<results>/runs/{protocol}/{instances}/{model}/{loss}/{bounding}.parquet"
CONTROLS = "<results>/runs/{protocol}/{instances}/controls.parquet"
COMPARED_CONTROLS = "<results>/runs/{protocol}/{instances}/compared/controls.parquet"


rule train:
    input:
        unpack(steps.inputs(RUNS)),
    output:
        runs=RUNS,
        epochs="<results>/runs/{protocol}/{instances}/{model}/{loss}/{bounding}.epochs.parquet",
        rates="<results>/runs/{protocol}/{instances}/{model}/{loss}/{bounding}.rates.parquet",
        predictions="<results>/runs/{protocol}/{instances}/{model}/{loss}/{bounding}.predictions.parquet",
        weights="<results>/runs/{protocol}/{instances}/{model}/{loss}/{bounding}.weights.safetensors",
    log:
        "<logs>/train/{protocol}/{instances}/{model}/{loss}/{bounding}.log",
    wildcard_constraints:
        model=one_of(sorted({job.model for job in study.jobs if not job.comparison})),
    threads: 1
    resources:
        mem_mb=growing(3000),
        runtime=growing(60),
        # The device, and the number of GPUs to request: a profile sets both (profiles/gpu, profiles/slurm).
        device="cpu",
        gpu=0,
        # Number of folds and seeds that are trained together: more of them use a GPU better. The last digits depend on
        # it.
        together=5,
    params:
        step=step,
        code=steps.code("job", named=steps.options(RUNS)),
        files=steps.flags(RUNS),
        options=steps.options(RUNS),
    shell:
        "{params.step} job --instances {input.instances:q} {params.files} --out {output.runs:q}"
        " --device {resources.device} --together {resources.together} --code {params.code}"
        " --options {params.options:q} > {log:q} 2>&1"


# The methods of the comparisons are trained in the same way; they start first because networks of pictures take
# longest.
use rule train as compare with:
    wildcard_constraints:
        model=one_of(sorted({job.model for job in study.compared})),
    priority: 1
    resources:
        # Penalised regressions hold all pixels, networks of pictures many weights.
        mem_mb=growing(steps.of_pictures(6000, otherwise=3000)),
        runtime=growing(240),
        device="cpu",
        gpu=0,
        together=steps.of_pictures(1, otherwise=5),


rule controls:
    input:
        unpack(steps.inputs(CONTROLS)),
    output:
        CONTROLS,
    log:
        "<logs>/controls/{protocol}/{instances}.log",
    localrule: True
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        step=step,
        code=steps.code("controls"),
        files=steps.flags(CONTROLS),
        options=steps.options(CONTROLS),
    shell:
        "{params.step} controls --instances {input.instances:q} {params.files} --out {output:q}"
        " --options {params.options:q} > {log:q} 2>&1"


use rule controls as compared_controls with:
    input:
        unpack(steps.inputs(COMPARED_CONTROLS)),
    output:
        COMPARED_CONTROLS,
    log:
        "<logs>/controls/{protocol}/{instances}-compared.log",
    params:
        step=step,
        code=steps.code("controls"),
        files=steps.flags(COMPARED_CONTROLS),
        options=steps.options(COMPARED_CONTROLS),


# The runs of a protocol, or of the comparisons: what is made from them waits for no other training.
rule collect:
    input:
        runs=lambda wildcards: study.collected[wildcards.part].runs,
        beside=lambda wildcards: study.collected[wildcards.part].beside,
    output:
        runs="<results>/collected/{part}.parquet",
        epochs="<results>/collected/{part}.epochs.parquet",
        rates="<results>/collected/{part}.rates.parquet",
    log:
        "<logs>/collect/{part}.log",
    wildcard_constraints:
        part=one_of(part for part in study.collected if part != EXPERIMENTS),
    localrule: True
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        step=step,
        code=steps.code("collect"),
    shell:
        "{params.step} collect --runs {input.runs:q} --out {output.runs:q} --epochs-out {output.epochs:q}"
        " --rates-out {output.rates:q} > {log:q} 2>&1"


use rule collect as join with:
    input:
        **study.joined._asdict(),
    output:
        runs="<results>/runs.parquet",
        epochs="<results>/epochs.parquet",
        rates="<results>/rates.parquet",
    log:
        "<logs>/join.log",


use rule collect as collect_experiments with:
    input:
        **study.collected.get(EXPERIMENTS, study.joined)._asdict(),
    output:
        runs="<results>/experiments.parquet",
        epochs="<results>/experiment_epochs.parquet",
        rates="<results>/experiment_rates.parquet",
    log:
        "<logs>/collect_experiments.log",
