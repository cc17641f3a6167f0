"""Compiles all kernels, once: processes that need one at the same time would each compile it.

python -m tests.compile_kernels
"""

from importlib import import_module
from pkgutil import iter_modules

from rankbound import kernels
from rankbound.kernels import Compiled


def main() -> None:
    """Compile the kernels of all modules that aren't in the user's cache."""
    if kernels.usable():
        for part in iter_modules(kernels.__path__, f"{kernels.__name__}."):
            for kernel in vars(import_module(part.name)).values():
                if isinstance(kernel, Compiled):
                    kernel.load()


if __name__ == "__main__":
    main()
