# Raw archives to the instances that training reads. Pictures come first: the longest trainings wait for them.


rule download:
    output:
        "<data>/raw/{archive}",
    log:
        "<logs>/download/{archive}.log",
    wildcard_constraints:
        archive=one_of(study.archives),
    priority: 2
    retries: 3
    localrule: True
    threads: 1
    resources:
        mem_mb=500,
        runtime=30,
    params:
        step=step,
        source=steps.source_of_archive,
        description=description_of_archive,
    shell:
        "{params.step} download {params.source:q} --out {output:q} {params.description} > {log:q} 2>&1"


rule convert:
    input:
        raw=steps.raw_files,
    output:
        "<data>/{kind}/{source}.parquet",
    log:
        "<logs>/convert/{kind}-{source}.log",
    wildcard_constraints:
        kind="interactions|lists|images",
        source=one_of(study.converted),
    priority: 2
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(20),
    params:
        step=step,
        code=steps.code("convert", named=steps.format_of_source),
        described=steps.described,
        description=description_of_source,
    shell:
        "{params.step} convert {wildcards.source:q} --raw {input.raw:q} --out {output:q}"
        " {params.description} > {log:q} 2>&1"


rule generate:
    output:
        "<data>/{kind}/{source}.parquet",
    log:
        "<logs>/generate/{kind}-{source}.log",
    wildcard_constraints:
        kind="interactions|lists|images",
        source=one_of(study.generated),
    localrule: True
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        step=step,
        code=steps.code("generate"),
        flags=steps.plain_flags("<data>/{kind}/{source}.parquet"),
    shell:
        "{params.step} generate {wildcards.source:q} {params.flags} --out {output:q} > {log:q} 2>&1"


rule split:
    input:
        unpack(steps.inputs("<data>/folds/{source}.parquet")),
    output:
        "<data>/folds/{source}.parquet",
    log:
        "<logs>/split/{source}.log",
    priority: 2
    localrule: True
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        step=step,
        code=steps.code("split"),
        options=steps.options("<data>/folds/{source}.parquet"),
    shell:
        "{params.step} split {wildcards.source:q} --in {input.data:q} --out {output:q}"
        " --options {params.options:q} > {log:q} 2>&1"


rule sample:
    input:
        unpack(steps.inputs("<data>/instances/{instances}.parquet")),
    output:
        "<data>/instances/{instances}.parquet",
    log:
        "<logs>/sample/{instances}.log",
    priority: 2
    localrule: True
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        step=step,
        code=steps.code("sample"),
        source=steps.source_of_instances,
        options=steps.options("<data>/instances/{instances}.parquet"),
    shell:
        "{params.step} sample {params.source:q} --in {input.data:q} --folds {input.folds:q} --out {output:q}"
        " --options {params.options:q} > {log:q} 2>&1"


rule weights:
    input:
        raw=f"<data>/raw/{VGG16_FILE}",
    output:
        "<data>/weights/vgg16.safetensors",
    log:
        "<logs>/weights/vgg16.log",
    threads: 1
    resources:
        mem_mb=growing(3000),
        runtime=growing(20),
    params:
        step=step,
        code=steps.code("weights"),
    shell:
        "{params.step} weights vgg16 --raw {input.raw:q} --out {output:q} > {log:q} 2>&1"


rule generate_weights:
    output:
        "<data>/weights/synthetic-vgg16.safetensors",
    log:
        "<logs>/weights/synthetic-vgg16.log",
    localrule: True
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        step=step,
        code=steps.code("weights"),
    shell:
        "{params.step} weights synthetic-vgg16 --out {output:q} > {log:q} 2>&1"


# Features of pictures by a pretrained network: hours on a CPU; resumes after an interruption.
rule features:
    input:
        unpack(steps.inputs("<data>/features/{source}-vgg16.parquet")),
    output:
        "<data>/features/{source}-vgg16.parquet",
    log:
        "<logs>/features/{source}.log",
    threads: 1
    resources:
        mem_mb=growing(4000),
        runtime=growing(600),
        device="cpu",
        gpu=0,
    params:
        step=step,
        code=steps.code("features"),
        flags=steps.plain_flags("<data>/features/{source}-vgg16.parquet"),
    shell:
        "{params.step} features --images {input.images:q} --weights {input.weights:q} --out {output:q}"
        " {params.flags} --device {resources.device} > {log:q} 2>&1"
