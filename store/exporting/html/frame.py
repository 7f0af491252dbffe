"""The frame of every page: its head, its style for light and dark, and what it may load and run: nothing of others."""

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape

from store import visible

_LIGHT = """
    --page: #faf9f7; --card: #ffffff; --ink: #1f1e1b; --dim: #65635c; --line: #e2dfd8; --code: #f4f2ee;
    --link: #1b58b8; --asked: #eaf1fc; --asked-code: #dbe6f8; --edge: #2f6fd6; --bad: #b3261e; --bad-card: #fdf1ef;
    --more: #116329; --more-card: #e4f5e8; --less: #a1221a; --less-card: #fce9e7;
    --word: #7b3aa3; --text: #17663a; --note: #6a685f; --figure: #9a4106; --name: #1b58b8; color-scheme: light;
"""
_DARK = """
    --page: #171614; --card: #1e1d1b; --ink: #e9e7e1; --dim: #a5a299; --line: #35332e; --code: #24231f;
    --link: #8ebaf7; --asked: #1c2739; --asked-code: #131b29; --edge: #6ea3ef; --bad: #ff9187; --bad-card: #2c1d1b;
    --more: #8adba0; --more-card: #16301e; --less: #f8a69f; --less-card: #3a1f1d;
    --word: #cda6f0; --text: #98d6a9; --note: #a09d93; --figure: #f0b27c; --name: #8ebaf7; color-scheme: dark;
"""
STYLE = f"""
:root {{{_LIGHT}}}
@media (prefers-color-scheme: dark) {{ :root {{{_DARK}}} }}
:root:has(#light:checked) {{{_LIGHT}}}
:root:has(#dark:checked) {{{_DARK}}}
* {{ box-sizing: border-box; }}
html {{ -webkit-text-size-adjust: 100%; scroll-padding-top: 1rem; }}
body {{
    margin: 0; padding: 1.25rem 1rem 4rem; background: var(--page); color: var(--ink);
    font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere;
}}
a {{ color: var(--link); }}
:focus-visible {{ outline: 2px solid var(--link); outline-offset: 2px; border-radius: .2rem; }}
h1 {{ font-size: 1.5rem; line-height: 1.25; margin: 0 0 .35rem; text-wrap: balance; }}
.about, .no, time, .choices {{ color: var(--dim); font-size: .8125rem; }}
.about {{ margin: 0 0 1rem; }}
.no {{ text-decoration: none; font-variant-numeric: tabular-nums; }}
.no:hover {{ text-decoration: underline; }}
.skip, .unseen {{ position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }}
.skip:focus {{ width: auto; height: auto; clip-path: none; padding: .5rem; background: var(--card); z-index: 1; }}
.choices {{ border: 0; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1rem; }}
.choices label {{ padding: .25rem 0; cursor: pointer; white-space: nowrap; }}
.choices input {{ accent-color: var(--link); margin: 0 .3rem 0 0; vertical-align: -.1rem; }}
code, pre, .what, .code {{ font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
@media print {{
    body {{ padding: 0; background: none; font-size: 10pt; }}
    nav, .choices, .skip, .filter {{ display: none !important; }}
}}
"""

PAGE_STYLE = """
body > * { max-width: 48rem; margin-inline: auto; }
nav { margin-block-end: 1.5rem; }
nav h2 { font-size: .8125rem; margin: 0; color: var(--dim); font-weight: 600; }
nav ol { list-style: none; margin: .25rem 0 0; padding: 0; border-block: 1px solid var(--line); }
nav:not(:has(#jump:checked)) :is(ol, h2) { display: none; }
nav li + li { border-top: 1px solid var(--line); }
nav li a { display: flex; gap: .6rem; padding: .5rem .25rem; color: inherit; text-decoration: none; line-height: 1.4; }
nav li a:hover { background: var(--code); }
nav li b { color: var(--dim); font-weight: 400; font-size: .8125rem; min-width: 1.4rem; text-align: end; }
nav li span {
    display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden; font-size: .875rem;
}
nav .home { display: inline-block; margin-bottom: .5rem; font-size: .875rem; }
article { content-visibility: auto; contain-intrinsic-size: auto 3rem; position: relative; }
article:target { outline: 2px solid var(--link); outline-offset: 3px; border-radius: .4rem; }
article > header { display: flex; align-items: baseline; gap: .6rem; }
article > header > :is(h2, h3, b) { margin: 0; font-size: .8125rem; font-weight: 600; line-height: 1.6; }
article > header .no { margin-inline-start: auto; }
.said { margin: 1rem 0; }
.said > header h3 { color: var(--dim); }
.asked {
    margin: 2.25rem 0 1.25rem; padding: .75rem 1rem; background: var(--asked); border-radius: .5rem;
    border-inline-start: .25rem solid var(--edge); --code: var(--asked-code);
}
.asked > header h2 { color: var(--link); }
.bad:not(.work) { padding-inline-start: .75rem; border-inline-start: .25rem solid var(--bad); }
.text > :first-child, details > :nth-child(2) { margin-top: .3rem; }
.text > :last-child { margin-bottom: 0; }
.text :is(h1, h2, h3, h4, h5, h6) { font-size: 1.05rem; line-height: 1.35; margin: 1.2rem 0 .4rem; }
.text :is(ol, ul) { padding-inline-start: 1.5rem; }
.work > details, .folded { background: var(--card); border: 1px solid var(--line); padding: 0 .75rem; }
.folded { border-radius: .4rem; margin: .5rem 0; }
.work + .work > details { border-top: 0; }
.work > details { border-radius: .1rem; }
:not(.work) + .work > details, .work:first-child > details { border-start-start-radius: .4rem;
    border-start-end-radius: .4rem; }
.work:not(:has(+ .work)) { margin-bottom: 1.25rem; }
.work:not(:has(+ .work)) > details { border-end-start-radius: .4rem; border-end-end-radius: .4rem; }
.work.bad > details { background: var(--bad-card); }
.work > :is(img, figure) { margin: .5rem 0; }
main > :first-child { margin-top: 0; }
summary { display: flex; align-items: baseline; gap: .5rem; padding: .35rem 0; cursor: pointer; list-style: none; }
summary::-webkit-details-marker { display: none; }
summary::before { content: "▸"; color: var(--dim); font-size: .7rem; width: .6rem; flex: none; }
details[open] > summary::before { content: "▾"; }
summary b { font-size: .875rem; font-weight: 600; flex: none; }
summary .what { font-size: .8125rem; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.reasoning summary b { font-weight: 400; color: var(--dim); }
summary .said-less { font-size: .875rem; color: var(--dim); font-family: inherit; }
summary .end { margin-inline-start: auto; flex: none; color: var(--dim); font-size: .75rem; white-space: nowrap; }
summary :is(ins, del) { flex: none; font-size: .8125rem; font-weight: 600; text-decoration: none; }
summary strong { color: var(--bad); font-size: .8125rem; flex: none; }
details[open] > summary .what { white-space: normal; }
details details > summary { color: var(--dim); font-size: .8125rem; }
details > :last-child:not(summary) { margin-bottom: .75rem; }
.about-call { margin: .25rem 0; font-size: .8125rem; color: var(--dim); }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem .8rem; margin: .3rem 0; }
dt { color: var(--dim); font-size: .8125rem; max-width: 12rem; }
dd { margin: 0; font: .8125rem/1.6 ui-monospace, monospace; }
pre, ol.code {
    margin: .5rem 0; padding: .6rem .75rem; background: var(--code); border-radius: .3rem; white-space: pre-wrap;
    font-size: .8125rem; line-height: 1.5; tab-size: 4;
}
@counter-style line { system: extends decimal; suffix: "  "; }
ol.code { padding-inline-start: 0; }
ol.code li { list-style: line outside; margin-inline-start: 3.5rem; min-height: 1.5em; }
ol.code li::marker { color: var(--dim); font-size: .75rem; font-variant-numeric: tabular-nums; }
code { font-size: .9em; background: var(--code); border-radius: .2rem; padding: .05rem .2rem; }
pre code { font-size: inherit; background: none; padding: 0; }
.diff :is(ins, del, b) {
    display: block; margin-inline: -.75rem; padding-inline: .75rem; text-decoration: none; min-height: 1.5em;
}
ins { color: var(--more); }
del { color: var(--less); }
.diff :is(ins, del) { color: inherit; }
.diff ins { background: var(--more-card); }
.diff del { background: var(--less-card); }
.diff :is(ins, del)::first-letter { color: var(--dim); }
.diff b { color: var(--dim); font-weight: 400; }
i[class] { font-style: normal; }
i.k { color: var(--word); }
i.s { color: var(--text); }
i.c { color: var(--note); font-style: italic; }
i.n { color: var(--figure); }
i.f { color: var(--name); }
figure { margin: .5rem 0; }
figcaption { color: var(--dim); font: .8125rem ui-monospace, monospace; }
img { display: block; max-width: 100%; height: auto; max-height: 32rem; border-radius: .3rem; }
table { display: block; max-width: 100%; overflow-x: auto; border-collapse: collapse; font-size: .9375rem; }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; overflow-wrap: normal; text-align: start; }
blockquote { margin: .5rem 0; padding-inline-start: .8rem; border-inline-start: .2rem solid var(--line);
    color: var(--dim); }
:root:has(#talk:checked) .work { display: none; }
@media (min-width: 54rem) {
    body {
        display: grid; grid-template-columns: 13rem minmax(0, 46rem); justify-content: center; column-gap: 2.5rem;
        grid-template-rows: auto 1fr; padding: 2rem 1.5rem 4rem;
    }
    body > * { margin-inline: 0; width: 100%; }
    body > nav {
        grid-column: 1; grid-row: 1 / span 2; position: sticky; top: 0; height: 100vh; margin: -2rem 0 0;
        padding: 2rem .5rem 1rem 0; overflow-y: auto; overscroll-behavior: contain; align-self: start;
        scrollbar-width: thin; scrollbar-color: var(--line) transparent;
    }
    body > :is(header, main) { grid-column: 2; }
    nav label.jump { display: none; }
    nav h2 { margin-top: 1.25rem; }
    nav:not(:has(#jump:checked)) :is(ol, h2) { display: block; }
    nav ol { border: 0; margin-bottom: 1.25rem; }
    nav li + li { border: 0; }
    nav li a { padding: .3rem .25rem; border-radius: .3rem; }
    nav li span { font-size: .8125rem; }
}
@media (min-width: 76rem) { body { grid-template-columns: 17rem minmax(0, 48rem); column-gap: 4rem; } }
@media print {
    body { display: block; }
    article { content-visibility: visible; break-inside: avoid-page; }
    details::details-content { content-visibility: visible; block-size: auto; }
}
"""

THEMES = """<fieldset class="choices">
<legend class="unseen">Colours</legend>
<label><input type="radio" name="theme" id="auto" checked>auto</label>
<label><input type="radio" name="theme" id="light">light</label>
<label><input type="radio" name="theme" id="dark">dark</label>
</fieldset>
"""
"""Works without a script: the style looks at which one is chosen."""


def head(title: str, about: Iterable[str], style: str, script: str = "") -> str:
    """Return a page up to the end of its header; nothing is loaded, and only ``script`` runs, whatever it holds."""
    title = escape(visible.line(" ".join(title.split())))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy(style, script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{STYLE}{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<h1 dir="auto">{title}</h1>
<p class="about">{escape(visible.line(" · ".join(filter(None, about))))}</p>
</header>
"""


def policy(style: str, script: str = "") -> str:
    """Return the policy of a page with a style and a script of its own."""
    runs = f"; script-src 'sha256-{_digest(script)}'" if script else ""
    allowed = f"style-src 'sha256-{_digest(STYLE + style)}'; img-src data:{runs}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
