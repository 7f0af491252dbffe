"""Libraries that are loaded without modules which they import."""

import subprocess
import sys

from tests.fusefs.cli.user import ROOT

PROGRAM = """
import sys
import fusefs.cli
from fusefs.cli.libraries import _Late, _standing, load_fuse, load_msgspec
load_msgspec()
load_fuse()
late = {"ctypes.util", "email", "hmac", "idna", "importlib.metadata", "ssl", "typing_extensions"}
late |= {"gettext", "msgspec.inspect", "msgspec._json_schema"}
print(*late & set(sys.modules))

import msgspec
print(msgspec.json.schema(int), msgspec.inspect.type_info(int), sep=" ")
print(msgspec.json.schema_components([int]), sys.modules["msgspec.inspect"].type_info(int))

from click import core
print(core._("Options"), core.ngettext("a", "b", 1), core.ngettext("a", "b", 2))
import gettext
print(gettext.NullTranslations.__name__)

import trio
from trio import _dtls, _socket, _ssl
print(_ssl._stdlib_ssl.SSLError.__module__, _socket._idna.encode("é.org"), _dtls.hmac.compare_digest("a", "a"))

import ctypes.util, importlib.metadata, platform
print(ctypes.util.find_library("c"), importlib.metadata.version("trio") == trio.__version__, platform.machine() != "")

with _standing(_Late("colorsys"), _Late("xml.dom"), missing=("wave",)):
    import colorsys
    import xml.dom
    print(colorsys.rgb_to_hsv(0, 0, 0), type(xml.dom).__name__)
    try:
        import wave
    except ImportError:
        print("there is no wave")
import colorsys, wave, xml.dom
print(type(colorsys).__name__, type(xml.dom).__name__, wave.__name__)
"""


def test_what_a_library_loads_late_is_there_when_it_is_used_and_for_all_others() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "",
        "{'type': 'integer'} IntType(gt=None, ge=None, lt=None, le=None, multiple_of=None)",
        "(({'type': 'integer'},), {}) IntType(gt=None, ge=None, lt=None, le=None, multiple_of=None)",
        "Options a b",
        "NullTranslations",
        "ssl b'xn--9ca.org' True",
        "libc.so.6 True True",
        "(0.0, 0.0, 0) _Late",
        "there is no wave",
        "module module wave",
    ]
