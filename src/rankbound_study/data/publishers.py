"""The publishers of the raw files: addresses, names of the files, and terms.

Only downloads depend on this module: another address changes no data, because `sources` says which content is right.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rankbound_study.data.sources import SOURCES, RawSource

_LETOR = (
    "Tao Qin and Tie-Yan Liu. 2013. Introducing LETOR 4.0 Datasets. arXiv:1306.2597. https://arxiv.org/abs/1306.2597"
)


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """The publisher's addresses and terms of a raw file.

    `file_names` are its possible names on a mirror or if placed by hand, preferred first; `addresses` the publisher's.
    """

    source: RawSource
    file_names: tuple[str, ...]
    addresses: tuple[str, ...]
    homepage: str
    terms: str
    citation: str


PUBLISHERS: Mapping[str, Publisher] = {
    publisher.source.name: publisher
    for publisher in (
        Publisher(
            source=SOURCES["movielens"],
            file_names=("ml-latest-small.zip",),
            addresses=("https://files.grouplens.org/datasets/movielens/ml-latest-small.zip",),
            homepage="https://grouplens.org/datasets/movielens/latest/",
            terms="Research use; redistribution only under the same terms (README.txt in the archive).",
            citation=(
                "F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and Context. "
                "ACM Transactions on Interactive Intelligent Systems 5, 4: 19:1-19:19. "
                "https://doi.org/10.1145/2827872"
            ),
        ),
        Publisher(
            source=SOURCES["mq2008"],
            file_names=("MQ2008.zip", "MQ2008.rar"),
            addresses=("https://s3-us-west-2.amazonaws.com/xgboost-examples/MQ2008.rar",),
            homepage="https://www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval/",
            terms="Research use; no redistribution.",
            citation=_LETOR,
        ),
        Publisher(
            source=SOURCES["mslr-web10k"],
            file_names=("MSLR-WEB10K.zip",),
            # The publisher's share link, https://1drv.ms/u/s!AtsMfWUz5l8nbOIoJ6Ks0bEMp78, through the API for such
            # links.
            addresses=(
                "https://api.onedrive.com/v1.0/shares/"
                "u!aHR0cHM6Ly8xZHJ2Lm1zL3UvcyFBdHNNZldVejVsOG5iT0lvSjZLczBiRU1wNzg/root/content",
                "https://api.onedrive.com/v1.0/shares/s!AtsMfWUz5l8nbOIoJ6Ks0bEMp78/root/content",
            ),
            homepage="https://www.microsoft.com/en-us/research/project/mslr/",
            terms="Research use (Microsoft Research licence agreement, on the homepage); no redistribution.",
            citation=_LETOR,
        ),
        Publisher(
            source=SOURCES["aaf"],
            file_names=("All-Age-Faces.zip", "All-Age-Faces-128px.zip"),
            addresses=(
                "https://github.com/middleyuan/All-Age-Faces-Dataset/archive/HEAD.zip",
                "https://www.dropbox.com/s/a0lj1ddd54ns8qy/All-Age-Faces%20Dataset.zip?dl=1",
            ),
            homepage="https://github.com/JingchunCheng/All-Age-Faces-Dataset",
            terms="Research use; no redistribution.",
            citation=(
                "Jingchun Cheng, Yali Li, Jilong Wang, Le Yu, and Shengjin Wang. 2019. Exploiting Effective Facial "
                "Patches for Robust Gender Recognition. Tsinghua Science and Technology 24, 3: 333-345. "
                "https://doi.org/10.26599/TST.2018.9010090"
            ),
        ),
        Publisher(
            source=SOURCES["vgg16"],
            file_names=("vgg16-397923af.pth",),
            addresses=("https://download.pytorch.org/models/vgg16-397923af.pth",),
            homepage="https://docs.pytorch.org/vision/stable/models/vgg.html",
            terms="BSD 3-Clause (torchvision); trained on ImageNet, whose own terms are non-commercial research.",
            citation=(
                "Karen Simonyan and Andrew Zisserman. 2015. Very Deep Convolutional Networks for Large-Scale Image "
                "Recognition. ICLR. https://arxiv.org/abs/1409.1556"
            ),
        ),
    )
}
