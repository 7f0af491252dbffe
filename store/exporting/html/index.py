"""The list of all conversations as one page, with a filter that works without a server."""

from collections.abc import Callable, Iterable
from html import escape
from itertools import groupby
from operator import attrgetter

from store import visible
from store.events.conversation import Conversation
from store.events.event import utf8
from store.exporting.html.frame import THEMES, head
from store.formats.core.times import iso, local

_STYLE = """
body > * { max-width: 60rem; margin-inline: auto; }
body > .choices { margin-inline: auto; }
.filter { position: sticky; top: 0; z-index: 1; background: var(--page); padding: .5rem 0; }
.filter input {
    width: 100%; padding: .55rem .8rem; font: inherit; color: inherit; background: var(--card);
    border: 1px solid var(--dim); border-radius: .4rem;
}
.filter output { display: block; min-height: 1.3rem; margin-top: .25rem; font-size: .8125rem; color: var(--dim); }
section { content-visibility: auto; contain-intrinsic-size: auto 40rem; }
h2 { font-size: .875rem; margin: 1.5rem 0 .25rem; color: var(--dim); font-weight: 600; }
section:first-child h2 { margin-top: 0; }
main ol { list-style: none; margin: 0; padding: 0; border-top: 1px solid var(--line); }
main li { border-bottom: 1px solid var(--line); }
main a { display: grid; gap: 0 1rem; padding: .5rem .25rem; color: inherit; text-decoration: none; }
main a:hover { background: var(--code); }
main a:hover b { color: var(--link); }
main b {
    font-weight: 500; line-height: 1.4; overflow: hidden; display: -webkit-box; -webkit-box-orient: vertical;
    -webkit-line-clamp: 2;
}
main small { font-size: .8125rem; color: var(--dim); }
mark { background: var(--asked); color: inherit; border-radius: .2rem; padding: 0 .3rem; }
[hidden] { display: none; }
@media (min-width: 44rem) {
    main a { grid-template-columns: 5.5rem minmax(0, 1fr) 11rem 6.5rem 5.5rem; align-items: baseline; }
    main small { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
    main small:last-of-type { text-align: end; }
}
@media (max-width: 43.99rem) {
    main a { display: block; }
    main small:not(:last-of-type)::after { content: " ·"; }
    main a > time { float: inline-end; margin-inline-start: .75rem; }
}
"""

_SCRIPT = """
const field = document.querySelector("input[type=search]"), told = document.querySelector("output");
const rows = [...document.querySelectorAll("main li")].map(row => [row, row.textContent.toLowerCase()]);
const groups = [...document.querySelectorAll("main section")];
field.closest(".filter").hidden = false;
function filter() {
    const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let left = 0;
    for (const [row, text] of rows) {
        row.hidden = !words.every(word => text.includes(word));
        left += !row.hidden;
    }
    for (const group of groups) group.hidden = !group.querySelector("li:not([hidden])");
    told.textContent = words.length ? `${left} of ${rows.length} conversations` : "";
}
field.addEventListener("input", filter);
addEventListener("pageshow", filter);
filter();
// on a phone, a keyboard would cover the list
if (matchMedia("(min-width: 44rem)").matches) field.focus({ preventScroll: true });
"""

_FILTER = """<search class="filter" hidden>
<input type="search" aria-label="Filter" placeholder="Filter by title, project, tool, label or date">
<output aria-live="polite"></output>
</search>
"""


def index(conversations: Iterable[Conversation], address: Callable[[Conversation], str]) -> bytes:
    """Return the page that lists conversations, the latest first; ``address`` says where the page of one is."""
    listed = sorted(conversations, key=attrgetter("updated_ms"), reverse=True)
    parts = [head("Conversations", [f"{len(listed):,} conversations"], _STYLE, _SCRIPT), THEMES, _FILTER]
    parts.append('<main id="main">\n')
    for month, some in groupby(listed, lambda one: local(one.updated_ms, "%B %Y")):
        rows = "".join(_row(one, address(one)) for one in some)
        parts.append(f"<section>\n<h2>{month or 'Without a date'}</h2>\n<ol>\n{rows}</ol>\n</section>\n")
    if not listed:
        parts.append("<p>There are no conversations yet.</p>\n")
    parts.append(f"</main>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n")
    return utf8("".join(parts))


def _row(one: Conversation, address: str) -> str:
    title = " ".join((one.title or one.name).split())
    labels = "".join(f" <mark>{escape(visible.line(label))}</mark>" for label in one.labels)
    day = local(one.updated_ms, "%Y-%m-%d")
    stamp = f'<time datetime="{iso(one.updated_ms)}">{day}</time>'
    facts = (one.project, one.format, f"{one.events:,} event{'' if one.events == 1 else 's'}")
    told = "\n".join(f"<small>{escape(visible.line(fact))}</small>" for fact in facts)
    shown = f'<b dir="auto">{escape(visible.line(title))}{labels}</b>'
    return f'<li><a href="{escape(address)}">{stamp} {shown}\n{told}</a></li>\n'
