# The distributions of a metric's score over random orders, for every list size in training. The kind of a file tells
# apart those of two methods, and those over orders biased towards ranking relevant items first (for runs with a tilted
# bounding).


rule distributions:
    input:
        unpack(steps.inputs("<results>/distributions/{loss}{kind}.parquet")),
    output:
        "<results>/distributions/{loss}{kind}.parquet",
    log:
        "<logs>/distributions/{loss}{kind}.log",
    wildcard_constraints:
        kind=KIND,
    threads: 1
    resources:
        mem_mb=growing(3000),
        runtime=growing(60),
    params:
        step=step,
        code=steps.code("distributions", named=attrgetter("loss")),
        options=steps.options("<results>/distributions/{loss}{kind}.parquet"),
    shell:
        "{params.step} distributions {wildcards.loss:q} --instances {input.instances:q} --out {output:q}"
        " --options {params.options:q} > {log:q} 2>&1"
