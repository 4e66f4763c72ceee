"""Labels out of a SKOS vocabulary: names, descriptions and broader concepts."""

import os
from collections import Counter
from pathlib import Path

from hf_xmtc.models.label_names import LabelNames

__all__ = ["SKOS_ENDINGS", "read_skos"]

SKOS_ENDINGS = {".ttl": "turtle", ".rdf": "xml", ".nt": "nt"}


def read_skos(
    path: str | os.PathLike, language: str | None = None
) -> tuple[LabelNames, list[str | None] | None, list[str | None] | None]:
    """Read the concepts of a vocabulary, sorted by URI.

    Args:
        path: A file in Turtle, RDF/XML or N-Triples.
        language: Language of names and descriptions; None for that in which most concepts have a name. A concept without a name in it has
            that of another language.

    Returns:
        Labels (URI, preferred name, broader concepts as parents), their descriptions (alternative names and definition) and their
        notations; None where no concept has one.

    Raises:
        ImportError: If ``rdflib`` is missing.
        ValueError: If the file cannot be read or holds no concept.
    """
    try:
        from rdflib import RDF, SKOS, Graph
    except ImportError as error:
        raise ImportError("Reading SKOS vocabularies needs `rdflib`: pip install 'hf_xmtc[skos]'", name="rdflib") from error
    path, graph = Path(path), Graph()
    try:
        graph.parse(path, format=SKOS_ENDINGS[path.suffix])
    except Exception as error:  # each of its parsers fails in its own way
        raise ValueError(
            f"{path} cannot be read as {SKOS_ENDINGS[path.suffix]} ({error}). Was the download cut off?"
        ) from error
    concepts = sorted(set(graph.subjects(RDF.type, SKOS.Concept)))
    if not concepts:
        raise ValueError(f"{path} holds no skos:Concept. Is it a SKOS vocabulary?")
    if language is None:
        names = Counter(name.language or "" for name in graph.objects(None, SKOS.prefLabel))
        language = min(names, key=lambda code: (-names[code], code), default="")

    def texts(concept, *properties) -> list[str]:
        values = [value for kind in properties for value in graph.objects(concept, kind)]
        chosen = [value for value in values if (getattr(value, "language", None) or "") == language]
        return sorted(str(value).strip() for value in chosen)

    def name(concept) -> str | None:
        others = sorted(str(value) for value in graph.objects(concept, SKOS.prefLabel))
        return next(iter(texts(concept, SKOS.prefLabel) + others), None)

    descriptions = ["; ".join(texts(c, SKOS.altLabel) + texts(c, SKOS.definition)) or None for c in concepts]
    parents = [sorted({*graph.objects(c, SKOS.broader), *graph.subjects(SKOS.narrower, c)}) for c in concepts]
    labels = LabelNames(list(map(str, concepts)), list(map(name, concepts)), [list(map(str, above)) for above in parents])
    notations = [min(map(str, graph.objects(c, SKOS.notation)), default=None) for c in concepts]
    return labels, (descriptions if any(descriptions) else None), (notations if any(notations) else None)
