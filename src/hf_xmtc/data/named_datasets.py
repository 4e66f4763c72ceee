"""Benchmarks of the field: their published sizes, propensity constants and where they come from. Nothing is downloaded.

Sizes are those of the files that papers work with; where two versions are in use, both stand here. Sources:

- XC: table of the Extreme Classification Repository (Bhatia et al., 2016). Of a set with texts its documents may be fewer.
- AttentionXML: table 2 of You et al. (NeurIPS 2019), the texts that they share; CorNet (Xun et al., 2020), table 1, has the same.
  EUR-Lex has another split there than at XC (15,449 and 3,865 documents, 3,956 labels, against 15,539, 3,809 and 3,993), and Wiki-500K
  other documents. Table 1 of the preprint of AttentionXML (2018) has labels per document and documents per label of Wiki10-31K the wrong
  way round.
- RCV1: Lewis et al. (2004) train on 23,149 documents and test on all others; Yang et al. (2018), and LACO after them, hold 1,000
  documents out for validation and 1,000 for test.
- AAPD: Yang et al. (2018). EURLEX57K: Chalkidis et al. (2019), who count the 4,271 concepts in use, 163 of them not in training.
- Reuters-21578: the ModApte split has 9,603 and 3,299 documents; those with a topic that both parts have (ApteMod, Yang and Liu 1999)
  are 7,769 and 3,019.

Propensity constants are those of Jain, Prabhu and Varma (2016): A = 0.5, B = 0.4 for Wikipedia (fitted on WikiLSHTC-325K), 0.6 and 2.6
for Amazon (fitted on Amazon-670K), the mean 0.55 and 1.5 for others. The scripts of AttentionXML take the mean for AmazonCat-13K and
Wiki10-31K too, and so do we; some authors take those of Amazon and Wikipedia, and their PSP differs.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hf_xmtc.metrics import PROPENSITY_CONSTANTS

if TYPE_CHECKING:
    from .label_info import LabelInfo

__all__ = ["NAMED_DATASETS", "NamedDataset", "Sizes", "find_benchmark"]


@dataclass(frozen=True)
class Sizes:
    """One version of a benchmark; ``labels_per_document`` is that of the training documents."""

    source: str
    num_train: int
    num_test: int
    num_labels: int
    labels_per_document: float
    num_validation: int = 0


@dataclass(frozen=True)
class NamedDataset:
    """A benchmark.

    Attributes:
        name: Lower case, with its number of labels where that tells versions apart.
        sizes: Its versions.
        propensity: Key of `hf_xmtc.metrics.PROPENSITY_CONSTANTS`.
        origin: Where it can be had, and who made it.
        files: Names of its files there.
        license: Licence of the texts; None where the origin names none.
    """

    name: str
    sizes: tuple[Sizes, ...]
    propensity: str
    origin: str
    files: tuple[str, ...]
    license: str | None = None

    @property
    def propensity_constants(self) -> tuple[float, float]:
        """A and B of `hf_xmtc.metrics.inverse_propensity`."""
        return PROPENSITY_CONSTANTS[self.propensity]

    def difference(self, info: "LabelInfo") -> str | None:
        """A paragraph on sizes that no version has; None where one fits. Splits that are not there are not compared."""
        counts = info.num_documents
        measured = {
            "training (and validation) documents": counts.get("train", 0) + counts.get("validation", 0),
            "test documents": counts.get("test", 0),
            "labels": info.num_labels + len(info.evaluation_only),
        }
        versions = []
        for sizes in self.sizes:
            published = (sizes.num_train + sizes.num_validation, sizes.num_test, sizes.num_labels)
            pairs = zip(measured.items(), published, strict=True)
            versions.append((sizes.source, [(*pair, number) for pair, number in pairs if pair[1] not in (0, number)]))
        source, nearest = min(versions, key=lambda version: len(version[1]))
        if not nearest:
            return None
        listing = ", ".join(f"{number:,} {what} instead of {published:,}" for what, number, published in nearest)
        return (
            f"{info.source} is taken for the benchmark {self.name}, but has {listing} ({source}). Results are not comparable with published "
            f"ones. Its files are {', '.join(self.files)}; see {self.origin}. Data of your own: named='none' (--named none)."
        )


_XC = "the Extreme Classification Repository (Bhatia et al., 2016), manikvarma.org/downloads/XC/XMLRepository.html"
_ATTENTIONXML = f"{_XC}, or the texts of AttentionXML (You et al., 2019), github.com/yourh/AttentionXML"
_TEXTS = ("train_texts.txt", "train_labels.txt", "test_texts.txt", "test_labels.txt")
_JSON = ("trn.json.gz", "tst.json.gz", "lbl.json.gz")
_FILTERED = (*_JSON, "filter_labels_train.txt", "filter_labels_test.txt")
_WIKIPEDIA = "CC BY-SA (the texts of Wikipedia)"

_ALL = (
    NamedDataset(
        "eurlex-4k",
        (Sizes("AttentionXML", 15_449, 3_865, 3_956, 5.30), Sizes("XC", 15_539, 3_809, 3_993, 5.31)),
        "default",
        f"{_ATTENTIONXML}; Loza Mencía and Fürnkranz (2008)",
        _TEXTS,
    ),
    NamedDataset(
        "wiki10-31k",
        (Sizes("XC, AttentionXML", 14_146, 6_616, 30_938, 18.64),),
        "default",
        f"{_ATTENTIONXML}; Zubiaga (2012)",
        _TEXTS,
        _WIKIPEDIA,
    ),
    NamedDataset(
        "amazoncat-13k",
        (Sizes("XC, AttentionXML", 1_186_239, 306_782, 13_330, 5.04),),
        "default",
        f"{_ATTENTIONXML}; McAuley and Leskovec (2013)",
        (*_JSON[:2], "Yf.txt", *_TEXTS),
    ),
    NamedDataset(
        "amazon-670k",
        (Sizes("XC, AttentionXML", 490_449, 153_025, 670_091, 5.45),),
        "amazon",
        f"{_ATTENTIONXML}; McAuley and Leskovec (2013)",
        _TEXTS,
    ),
    NamedDataset(
        "amazon-3m",
        (Sizes("XC, AttentionXML", 1_717_899, 742_507, 2_812_281, 36.04),),
        "amazon",
        f"{_ATTENTIONXML}; McAuley, Pandey and Leskovec (2015)",
        _TEXTS,
    ),
    NamedDataset(
        "wiki-500k",
        (
            Sizes("AttentionXML, CorNet", 1_779_881, 769_421, 501_008, 4.75),
            Sizes("XC, LF-Wikipedia-500K", 1_813_391, 783_743, 501_070, 4.77),
        ),
        "wikipedia",
        _ATTENTIONXML,
        _TEXTS,
        _WIKIPEDIA,
    ),
    NamedDataset(
        "wikilshtc-325k",
        (Sizes("XC", 1_778_351, 587_084, 325_056, 3.19),),
        "wikipedia",
        f"{_XC}; Partalas et al. (2015)",
        ("train.txt", "test.txt"),
        _WIKIPEDIA,
    ),
    NamedDataset(
        "lf-amazontitles-131k",
        (Sizes("XC", 294_805, 134_835, 131_073, 2.29),),
        "amazon",
        f"{_XC}; DECAF (Mittal et al., 2021)",
        _FILTERED,
    ),
    NamedDataset(
        "lf-amazontitles-1.3m",
        (Sizes("XC", 2_248_619, 970_237, 1_305_265, 22.20),),
        "amazon",
        f"{_XC}; ECLARE (Mittal et al., 2021)",
        _FILTERED,
    ),
    NamedDataset(
        "lf-wikiseealso-320k",
        (Sizes("XC", 693_082, 177_515, 312_330, 2.11),),
        "wikipedia",
        f"{_XC}; DECAF (Mittal et al., 2021)",
        _FILTERED,
        _WIKIPEDIA,
    ),
    NamedDataset(
        "aapd",
        (Sizes("Yang et al. (2018)", 53_840, 1_000, 54, 2.41, num_validation=1_000),),
        "default",
        "the data of SGM (Yang et al., 2018), github.com/lancopku/SGM",
        ("text_train", "label_train", "text_val", "label_val", "text_test", "label_test"),
    ),
    NamedDataset(
        "rcv1-v2",
        (
            Sizes("Lewis et al. (2004)", 23_149, 781_265, 103, 3.18),
            Sizes("Yang et al. (2018), LACO", 802_414, 1_000, 103, 3.24, num_validation=1_000),
        ),
        "default",
        "Lewis et al. (2004), jmlr.org/papers/v5/lewis04a.html; the texts from NIST, trec.nist.gov/data/reuters/reuters.html",
        ("lyrl2004_tokens_train.dat", "lyrl2004_tokens_test_pt0.dat to _pt3.dat", "rcv1-v2.topics.qrels"),
        "for research, after an agreement with NIST",
    ),
    NamedDataset(
        "eurlex57k",
        (Sizes("Chalkidis et al. (2019)", 45_000, 6_000, 4_271, 5.0, num_validation=6_000),),
        "default",
        "Chalkidis et al. (2019), nlp.cs.aueb.gr/software_and_datasets/EURLEX57K",
        ("train/*.json", "dev/*.json", "test/*.json"),
        "CC BY-SA 4.0",
    ),
    NamedDataset(
        "reuters-21578",
        (Sizes("ApteMod, Yang and Liu (1999)", 7_769, 3_019, 90, 1.24),),
        "default",
        "Lewis (1997), archive.ics.uci.edu/dataset/137, split ModApte without documents whose topics one part lacks",
        ("reut2-000.sgm to reut2-021.sgm",),
        "for research alone, copyright of Reuters and Carnegie Group",
    ),
)
NAMED_DATASETS: dict[str, NamedDataset] = {dataset.name: dataset for dataset in _ALL}


def find_benchmark(named: str | None, folder: str) -> NamedDataset | None:
    """The benchmark that the user names, or that has the name of the folder; None for other data and ``"none"``.

    Raises:
        ValueError: If the user names one that is not known here.
    """
    if named not in (None, "none") and named.lower() not in NAMED_DATASETS:
        raise ValueError(
            f"named={named!r} is not one of the known benchmarks: {', '.join(NAMED_DATASETS)}, or none for other data."
        )
    return NAMED_DATASETS.get((named or folder).lower())
