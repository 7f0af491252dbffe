"""What every HTML page has that does not depend on the conversation: how it looks, and what it may not do."""

from base64 import b64encode
from hashlib import sha256

_LIGHT = """
    --page: #fbfbfa; --card: #fff; --ink: #1c1c1a; --dim: #5f5f5a; --line: #dcdcd6; --code: #f1f1ed; --link: #0b57a4;
    --user: #0b57a4; --model: #6b3fa0; --tool: #7a5a00; --bad: #b3261e; color-scheme: light;
"""
_DARK = """
    --page: #161615; --card: #1f1f1d; --ink: #e8e8e3; --dim: #a3a39b; --line: #3a3a36; --code: #2a2a27; --link: #8ab8f0;
    --user: #8ab8f0; --model: #c9a8f0; --tool: #e0bd5a; --bad: #ff8a80; color-scheme: dark;
"""
STYLE = f"""
:root {{{_LIGHT}}}
@media (prefers-color-scheme: dark) {{ :root {{{_DARK}}} }}
:root:has(#light:checked) {{{_LIGHT}}}
:root:has(#dark:checked) {{{_DARK}}}
* {{ box-sizing: border-box; }}
html {{ -webkit-text-size-adjust: 100%; }}
body {{
    margin: 0 auto; padding: 1rem; max-width: 56rem; background: var(--page); color: var(--ink);
    font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere;
}}
a {{ color: var(--link); }}
h1 {{ font-size: 1.4rem; line-height: 1.25; margin: 0 0 .4rem; }}
.about, .theme, article > header, summary small {{ color: var(--dim); font-size: .85rem; }}
.theme {{ border: 0; margin: 0 0 1rem; padding: 0; }}
.theme label {{ display: inline-block; padding: .3rem .8rem .3rem 0; }}
article {{
    margin: 0 0 .8rem; padding: .6rem .8rem; background: var(--card); border: 1px solid var(--line);
    border-left: .25rem solid var(--line); border-radius: .4rem; content-visibility: auto;
    contain-intrinsic-size: auto 6rem;
}}
article:target {{ outline: 2px solid var(--link); }}
article > header a {{ color: inherit; text-decoration: none; }}
article.user, article.answer {{ border-left-color: var(--user); }}
article.assistant, article.reasoning, article.question {{ border-left-color: var(--model); }}
article.tool_call, article.tool_result {{ border-left-color: var(--tool); }}
article.failed {{ border-left-color: var(--bad); }}
article.failed header b {{ color: var(--bad); }}
.text :is(h1, h2, h3, h4, h5, h6) {{ font-size: 1.1rem; line-height: 1.3; margin: 1rem 0 .4rem; }}
.text > :first-child, figure > :last-child {{ margin-top: .3rem; }}
.text > :last-child {{ margin-bottom: .2rem; }}
summary {{ cursor: pointer; padding: .3rem 0; }}
pre {{
    margin: .3rem 0; padding: .6rem; background: var(--code); border-radius: .3rem; white-space: pre-wrap;
    font: .85rem/1.45 ui-monospace, monospace; tab-size: 4;
}}
code {{ font-family: ui-monospace, monospace; font-size: .9em; background: var(--code); border-radius: .2rem; }}
pre code {{ font-size: inherit; background: none; }}
figure {{ margin: .4rem 0; }}
figcaption {{ color: var(--dim); font: .8rem ui-monospace, monospace; }}
img {{ max-width: 100%; height: auto; }}
table {{ display: block; max-width: 100%; overflow-x: auto; border-collapse: collapse; }}
th, td {{ border: 1px solid var(--line); padding: .2rem .5rem; overflow-wrap: normal; }}
blockquote {{ margin: .5rem 0; padding-left: .8rem; border-left: .2rem solid var(--line); color: var(--dim); }}
ol, ul {{ padding-left: 1.4rem; }}
@media print {{ .theme {{ display: none; }} article {{ content-visibility: visible; }} }}
"""

_STYLE_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()

POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
"""Nothing is loaded and nothing runs, whatever the conversation holds."""

THEMES = """<fieldset class="theme" aria-label="Colours">
<label><input type="radio" name="theme" id="auto" checked> as the system</label>
<label><input type="radio" name="theme" id="light"> light</label>
<label><input type="radio" name="theme" id="dark"> dark</label>
</fieldset>
"""
"""Works without a script: the style looks at which one is chosen."""
