"""JUnit XML of verdicts: continuous integration shows each pair and expectation as a test."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from xml.etree import ElementTree as Xml

from kvbench.report.labels import point_name
from kvbench.report.quantities import in_words
from kvbench.report.tables import ratio_text
from kvbench.results.verdict import ExpectStatus, ExpectVerdict, PairVerdict, Verdict

#: Characters that XML 1.0 cannot hold, whatever their escaping.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def comparison_junit(
    pairs: Sequence[PairVerdict],
    *,
    expectations: Sequence[ExpectVerdict] = (),
    fail_on: Collection[str] = (Verdict.WORSE,),
) -> str:
    """Return JUnit XML.

    Args:
        pairs: Verdicts of the pairs; those in ``fail_on`` are failures, the other inconclusive
            and missing ones are skipped tests.
        expectations: Verdicts of expectations and gates; unmet ones are failures.
        fail_on: Verdicts that count as failures.
    """
    root = Xml.Element("testsuites", name="kvbench")
    by_benchmark: dict[str, list[PairVerdict]] = {}
    for pair in pairs:
        by_benchmark.setdefault(pair.benchmark, []).append(pair)
    for benchmark, group in by_benchmark.items():
        cases = [_pair_case(pair, fail_on) for pair in group]
        root.append(_suite(f"compare {benchmark}", cases))
    if expectations:
        root.append(_suite("expectations", [_expect_case(item) for item in expectations]))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(name: str, cases: Sequence[Xml.Element]) -> Xml.Element:
    counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in _KINDS}
    suite = Xml.Element(
        "testsuite",
        name=_clean(name),
        tests=str(len(cases)),
        failures=str(counts["failure"]),
        skipped=str(counts["skipped"]),
        errors="0",
    )
    suite.extend(cases)
    return suite


def _pair_case(pair: PairVerdict, fail_on: Collection[str]) -> Xml.Element:
    where = ", ".join(filter(None, [pair.engine, point_name(pair.where)]))
    case = _case(f"kvbench.{pair.benchmark}", f"{pair.metric or 'all metrics'} ({where})")
    said = f"{pair.verdict}: {pair.reason}"
    if pair.verdict in fail_on:
        base, new = (in_words(v, pair.unit) for v in (pair.base_median, pair.new_median))
        detail = f"base {base}, new {new}, new ÷ base {ratio_text(pair)} ({pair.evidence})"
        _add(case, "failure", said, detail)
    elif pair.verdict in {Verdict.MISSING, Verdict.INCONCLUSIVE}:
        _add(case, "skipped", said)
    return case


def _expect_case(item: ExpectVerdict) -> Xml.Element:
    where = ", ".join(filter(None, [item.engine, point_name(item.where)]))
    name = f"{item.name} ({where})" if where else item.name
    case = _case(f"kvbench.{item.benchmark}", name)
    if item.status != ExpectStatus.MET:
        _add(case, "failure", f"{item.status}: {item.reason}", f"expected {item.relation}")
    return case


def _case(classname: str, name: str) -> Xml.Element:
    return Xml.Element("testcase", classname=_clean(classname), name=_clean(name))


def _add(case: Xml.Element, kind: str, message: str, detail: str = "") -> None:
    Xml.SubElement(case, kind, message=_clean(message)).text = _clean(detail) or None


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)


_KINDS = ("failure", "skipped")
