"""Results of the papers on the data sets that the tables are made on too."""

__all__ = ["paper_values"]

# As both papers have them; nDCG@1 is P@1.
COLUMNS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5")

Values = dict[str, dict[str, tuple[float | None, ...]]]

# CorNet (Xun et al., 2020), tables 2, 3 and 4: data set, row, values in the order of `COLUMNS`.
CORNET: Values = {
    "eurlex-4k": {
        "xmlcnn": (76.81, 62.79, 51.56, 66.44, 60.47),
        "cornet-xmlcnn": (78.60, 64.22, 53.07, 67.81, 61.90),
        "bertxml": (77.80, 64.57, 53.25, 67.97, 62.10),
        "cornet-bertxml": (79.02, 65.49, 53.94, 68.98, 62.97),
        "meshprobenet": (79.92, 66.52, 55.13, 69.98, 64.13),
        "cornet-meshprobenet": (83.47, 70.50, 58.73, 73.86, 67.95),
        "attentionxml": (85.43, 73.30, 60.99, 76.54, 70.45),
        "cornet-attentionxml": (86.39, 73.70, 61.72, 77.10, 71.24),
    },
    "amazoncat-13k": {
        "xmlcnn": (94.53, 79.12, 63.38, 88.19, 85.61),
        "cornet-xmlcnn": (95.36, 80.55, 64.83, 89.54, 87.11),
        "bertxml": (94.78, 80.78, 65.51, 89.57, 87.58),
        "cornet-bertxml": (95.22, 81.37, 66.03, 90.13, 88.13),
        "meshprobenet": (95.63, 81.84, 66.47, 90.65, 88.69),
        "cornet-meshprobenet": (96.10, 82.82, 67.57, 91.54, 89.78),
        "attentionxml": (95.13, 81.12, 66.10, 89.90, 88.13),
        "cornet-attentionxml": (96.19, 82.81, 67.63, 91.54, 89.81),
    },
    "wiki-500k": {
        "xmlcnn": (63.36, 43.92, 33.86, 53.78, 51.46),
        "cornet-xmlcnn": (66.26, 46.59, 35.80, 56.86, 54.39),
        "bertxml": (66.86, 47.67, 36.30, 58.13, 55.40),
        "cornet-bertxml": (67.14, 47.85, 36.43, 58.33, 55.59),
        "meshprobenet": (64.57, 44.34, 34.14, 54.72, 52.53),
        "cornet-meshprobenet": (69.79, 50.68, 38.98, 61.47, 58.91),
    },
}

# AttentionXML (You et al., 2018, arXiv v1), tables 2 and 3.
ATTENTIONXML: Values = {
    "rcv1": {
        "xmlrnn": (95.30, 80.42, 55.99, 91.60, 92.44),
        "attentionxml": (95.76, 81.22, 56.75, 92.33, 93.29),
    },
    "eurlex-4k": {
        "xmlrnn": (74.77, 61.04, 50.11, 64.55, 58.78),
        "attentionxml": (82.87, 70.35, 58.39, 73.65, 67.67),
    },
    "wiki10-31k": {
        "xmlrnn": (82.94, 69.77, 59.38, 72.92, 64.91),
        "attentionxml": (83.03, 74.58, 65.28, 76.62, 69.68),
    },
    "wikilshtc": {
        "xmlrnn": (57.02, 31.82, 21.46, 55.78, 57.51),
        "attentionxml": (62.89, 36.05, 24.32, 62.48, 64.38),
    },
    "amazoncat-13k": {
        "xmlrnn": (94.08, 78.41, 62.34, 87.55, 84.61),
        "attentionxml-large": (94.83, 80.45, 65.24, 89.33, 87.31),
    },
}


# LACO (Zhang et al., 2021): Hamming loss; micro and macro precision, recall and F1 (tables 2 and 4); then, where tables 5 and 6 have
# the model, subset accuracy, distinct sets, and the label dependency KL of test and training documents. None is what the paper does not
# say or its text garbles: the precision and recall of LACO itself and of its ablations, and the Hamming losses of the two ablations.
LACO_COLUMNS = (
    "hamming_loss",
    "micro_precision",
    "micro_recall",
    "micro_f1",
    "macro_precision",
    "macro_recall",
    "macro_f1",
    "subset_accuracy",
    "num_distinct_sets",
    "label_dependency_kl",
    "train_label_dependency_kl",
)
LACO: Values = {
    "aapd": {
        "bert": (2.24, 78.6, 68.7, 73.4, 68.7, 52.1, 57.2),
        "without-je": (None, None, None, 72.6, None, None, 57.7),
        "without-ca": (None, None, None, 73.5, None, None, 58.4),
        "seqtag": (2.38, 74.3, 71.5, 72.9, 61.5, 57.5, 58.5, 41.0, 289, 1.28, 1.40),
        "laco": (2.13, None, None, 74.5, None, None, 59.1, 42.5, 315, 1.27, 1.40),
        "laco-plcp": (2.12, 79.5, 70.8, 74.9, 68.4, 55.8, 59.9, 43.9, 320, 1.28, 1.35),
        "laco-clcp": (2.15, 78.9, 70.8, 74.7, 71.9, 56.6, 61.2, 42.7, 321, 1.10, 1.32),
    },
    "rcv1-v2": {
        "bert": (0.73, 92.7, 83.2, 87.7, 77.3, 61.9, 66.7),
        "without-je": (None, None, None, 87.5, None, None, 68.4),
        "without-ca": (None, None, None, 87.8, None, None, 68.5),
        "seqtag": (0.73, 90.6, 84.9, 87.7, 73.7, 66.7, 68.7, 63.7, 187, 0.95, 0.09),
        "laco": (0.72, None, None, 88.1, None, None, 69.2, 64.2, 241, 0.94, 0.09),
        "laco-plcp": (0.70, 90.8, 86.2, 88.4, 76.1, 66.5, 69.2, 64.4, 241, 0.76, 0.08),
        "laco-clcp": (0.70, 90.6, 86.4, 88.5, 77.6, 71.5, 73.1, 66.0, 239, 0.91, 0.08),
    },
}

# TReaderXML (Wang et al., 2022), tables 2, 3 and 4, by table; the text of the PDF has no P@3 for EUR-Lex, and tail metrics of one data set.
TREADERXML: Values = {
    "treaderxml-amazoncat-13k": {
        "config-0": (88.73, 69.12, 53.94, 78.78, 75.42),
        "config-1": (93.93, 77.70, 58.53, 87.15, 81.79),
        "config-2": (95.49, 83.45, 66.08, 92.00, 88.81),
        "config-3": (95.52, 83.46, 66.04, 92.03, 88.81),
        "config-4": (96.49, 85.44, 68.84, 93.86, 91.52),
        "config-5": (96.20, 84.89, 68.04, 93.33, 90.72),
        "config-6": (96.64, 85.57, 68.98, 93.99, 91.67, 57.15, 71.64, 77.27),
    },
    "treaderxml-eurlex-4k": {"config-6": (87.88, None, 64.05, 80.70, 73.56)},
    "treaderxml-rcv1": {"config-6": (97.50, 78.74, 54.67, 90.29, 90.94)},
}


def paper_values(table: str) -> dict[str, tuple[str, dict[str, float]]]:
    """Published results of the rows of a table, which mostly has the name of its data set.

    Returns:
        Name of a row → paper, and values in per cent (distinct sets and KL as they are), of `COLUMNS` and ``PSP``, or `LACO_COLUMNS`. Where two
        papers have a row, CorNet's, whose recipes it has.
    """
    found = {}
    for paper, columns, values in (
        ("AttentionXML", COLUMNS, ATTENTIONXML),
        ("CorNet", COLUMNS, CORNET),
        ("LACO", LACO_COLUMNS, LACO),
        ("TReaderXML", (*COLUMNS, "PSP@1", "PSP@3", "PSP@5"), TREADERXML),
    ):
        for row, numbers in values.get(table, {}).items():
            known = zip(columns, numbers, strict=False)
            found[row] = (paper, {metric: number for metric, number in known if number is not None})
    return found
