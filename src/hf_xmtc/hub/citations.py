"""Citations of a model card: the papers behind a family and the parts that a recipe adds."""

from collections.abc import Mapping

__all__ = ["citation"]

CORNET = """```bibtex
@inproceedings{xun2020correlation,
  title     = {Correlation Networks for Extreme Multi-label Text Classification},
  author    = {Xun, Guangxu and Jha, Kishlay and Sun, Jianhui and Zhang, Aidong},
  booktitle = {Proceedings of the 26th ACM SIGKDD International Conference on Knowledge Discovery and Data Mining},
  year      = {2020}
}
```"""

ATTENTIONXML = """```bibtex
@misc{you2018attentionxml,
  title         = {AttentionXML: Extreme Multi-Label Text Classification with Multi-Label Attention Based Recurrent Neural Networks},
  author        = {You, Ronghui and Dai, Suyang and Zhang, Zihan and Mamitsuka, Hiroshi and Zhu, Shanfeng},
  eprint        = {1811.01727},
  archivePrefix = {arXiv},
  year          = {2018}
}
```"""

LACO = """```bibtex
@inproceedings{zhang2021enhancing,
  title     = {Enhancing Label Correlation Feedback in Multi-Label Text Classification via Multi-Task Learning},
  author    = {Zhang, Ximing and Zhang, Qian-Wen and Yan, Zhao and Liu, Ruifang and Cao, Yunbo},
  booktitle = {Findings of the Association for Computational Linguistics: ACL-IJCNLP 2021},
  year      = {2021}
}
```"""

PARABEL = """```bibtex
@inproceedings{prabhu2018parabel,
  title     = {Parabel: Partitioned Label Trees for Extreme Classification with Application to Dynamic Search Advertising},
  author    = {Prabhu, Yashoteja and Kag, Anil and Harsola, Shrutendra and Agrawal, Rahul and Varma, Manik},
  booktitle = {Proceedings of the 2018 World Wide Web Conference},
  year      = {2018}
}
```"""

BONSAI = """```bibtex
@article{khandagale2020bonsai,
  title   = {Bonsai: Diverse and Shallow Trees for Extreme Multi-label Classification},
  author  = {Khandagale, Sujay and Xiao, Han and Babbar, Rohit},
  journal = {Machine Learning},
  year    = {2020}
}
```"""

DISMEC = """```bibtex
@inproceedings{babbar2017dismec,
  title     = {DiSMEC: Distributed Sparse Machines for Extreme Multi-label Classification},
  author    = {Babbar, Rohit and Sch{\\"o}lkopf, Bernhard},
  booktitle = {Proceedings of the Tenth ACM International Conference on Web Search and Data Mining},
  year      = {2017}
}
```"""

LIGHTATTENTION = """```bibtex
@misc{zhu:lightattention,
  title = {Multi-Label text classification (MTC)},
  author = {Zhu, Danlei and Teng, Siyu and Huang, Junhao},
  note  = {Student report, BNU-HKBU United International College}
}
```"""

TREADERXML = """```bibtex
@misc{wang2022exploiting,
  title         = {Exploiting Dynamic and Fine-grained Semantic Scope for Extreme Multi-label Text Classification},
  author        = {Wang, Yuan and Song, Huiling and Huo, Peng and Xu, Tao and Yang, Jucheng and Chen, Yarui and Zhao, Tingting},
  eprint        = {2205.11973},
  archivePrefix = {arXiv},
  year          = {2022}
}
```"""

# Family → where it comes from, and the paper.
OF_FAMILY = {
    "parabel": ("Parabel (Prabhu et al., 2018), trained by the library omikuji", PARABEL),
    "bonsai": ("Bonsai (Khandagale et al., 2020), trained by the library omikuji", BONSAI),
    "dismec": ("DiSMEC (Babbar and Schölkopf, 2017), trained by the library omikuji", DISMEC),
    "neighbors": (
        "the authors of `hf_xmtc`. That labels of similar training texts help is from TReaderXML (Wang et al., 2022), whose teacher knowledge "
        "they are",
        TREADERXML,
    ),
    "bertxml": ("CorNet (Xun et al., KDD 2020)", CORNET),
    "xmlcnn": ("CorNet (Xun et al., KDD 2020), which takes it from Liu et al. (2017)", CORNET),
    "meshprobenet": ("CorNet (Xun et al., KDD 2020), which takes it from Xun et al. (2019)", CORNET),
    "attentionxml": ("AttentionXML (You et al., 2018)", ATTENTIONXML),
    "lightattention": (
        "the LightAttention report (Zhu et al.), which builds on AttentionXML (You et al., 2018)",
        LIGHTATTENTION,
    ),
    "xmlrnn": ("AttentionXML (You et al., 2018), as its ablation", ATTENTIONXML),
    "treaderxml": ("TReaderXML (Wang et al., 2022)", TREADERXML),
    "laco": ("LACO (Zhang et al., 2021)", LACO),
    "seqtag": ("LACO (Zhang et al., 2021), as a baseline", LACO),
}


def citation(family: str, recipe: Mapping) -> str:
    """The section on citation.

    Args:
        family: Model family.
        recipe: Settings; CorNet blocks are cited too.
    """
    if family == "ensemble":
        parts, papers = ["Ensembles by consensus are from AttentionXML (You et al., 2018):", ATTENTIONXML], [ATTENTIONXML]
        for kind in dict.fromkeys(part.get("model_type") for part in (recipe.get("parts") or {}).values()):
            source, paper = OF_FAMILY.get(kind, ("", ""))
            if paper and paper not in papers:
                parts, papers = [*parts, f"The part `{kind}` is from {source}:", paper], [*papers, paper]
    elif family not in OF_FAMILY:
        parts = [f"Please cite the paper behind `{family}`; the code in this repository names it."]
        papers = []
    else:
        source, paper = OF_FAMILY[family]
        parts, papers = [f"The architecture is from {source}:", paper], [paper]
    if recipe.get("cornet_num_blocks") and CORNET not in papers:
        parts += ["The CorNet blocks are from Xun et al. (KDD 2020):", CORNET]
    return "\n\n".join(parts)
