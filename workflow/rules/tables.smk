# The distributions of a metric's score over random orders, for every list size in training.


rule distributions:
    input:
        instances=study.bounded_files(),
    output:
        "<results>/distributions/{loss}.parquet",
    log:
        "<logs>/distributions/{loss}.log",
    threads: 1
    resources:
        mem_mb=growing(3000),
        runtime=growing(60),
    params:
        code=steps.distribution_code,
        options=steps.distribution_options,
    shell:
        "python -m rankbound_study distributions {wildcards.loss:q} --instances {input.instances:q} --out {output:q}"
        " --options {params.options:q} > {log:q} 2>&1"


# The same over orders biased towards ranking relevant items first, for runs with a tilted bounding.
use rule distributions as tilted_distributions with:
    input:
        instances=steps.tilted_from,
    output:
        "<results>/distributions/{loss}-tilt{tilt}.parquet",
    log:
        "<logs>/distributions/{loss}-tilt{tilt}.log",
    wildcard_constraints:
        tilt=r"[0-9]+(\.[0-9]+)?",
    params:
        code=steps.distribution_code,
        options=steps.tilted_options,
