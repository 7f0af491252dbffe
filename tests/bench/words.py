"""Text that looks like what people and tools write: prose, source code, listings; seeded, so always the same.

It compresses about as well as real sessions do, because what real sessions repeat is repeated here too: a project
has a fixed set of source files, and tool results show parts of them again and again.
"""

import random
from itertools import accumulate

COMMON_TEXT = """
the of and to in is that it for was on are as with be by this have from at not an or we which can has all
there one what if will when no more out so up into than them only some could time these two may then do first any my
now such like our over even most me after also did many before must through back where much should well people down
own just because good each those how too little state very make still see new way here thing between same another
know while last might us great against during without again found use old always need work part get went test file
function error value return line change code check run call list name type number path read write call build
"""

SYLLABLE_TEXT = "ba ce di fo gu ha je ki lo mu na pe qui ro su ta ve wi xo ze bra cle dri flo gru pla ste tri"

TOOLS = ("Read", "Edit", "Bash", "Grep", "Write", "Glob")

BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


WORDS = 6000
"""How many different words a vocabulary has, unless it is to have more."""


class Vocabulary:
    """Words by Zipf's law: the common ones above, then some thousands made of syllables."""

    def __init__(self, seed: int = 1, size: int = WORDS) -> None:
        made = random.Random(seed)
        syllables = SYLLABLE_TEXT.split()
        words = list(dict.fromkeys(COMMON_TEXT.split()))
        known = set(words)
        while len(words) < size:
            word = "".join(made.choices(syllables, k=made.randint(2, 4)))
            if word not in known:
                known.add(word)
                words.append(word)
        self.words = words
        self._weights = list(accumulate(1 / (rank + 4) for rank in range(size)))

    def draw(self, random_: random.Random, count: int) -> list[str]:
        """Return ``count`` words, the frequent ones often."""
        return random_.choices(self.words, cum_weights=self._weights, k=count)

    def rare(self, random_: random.Random) -> str:
        """Return a word from the rarer half, as names in source code are."""
        return self.words[random_.randrange(len(self.words) // 2, len(self.words))]


def prose(random_: random.Random, vocabulary: Vocabulary, size: int) -> str:
    """Return some ``size`` characters of sentences, in paragraphs."""
    words = vocabulary.draw(random_, size // 5 + 4)
    parts: list[str] = []
    at = 0
    length = 0
    while length < size and at < len(words):
        step = random_.randint(6, 18)
        sentence = " ".join(words[at : at + step]).capitalize()
        sentence += random_.choice((". ", ". ", ". ", ".\n\n", ":\n- "))
        parts.append(sentence)
        length += len(sentence)
        at += step
    return "".join(parts).strip()


def source_file(random_: random.Random, vocabulary: Vocabulary, lines: int) -> list[str]:
    """Return the lines of a source file of a made-up program."""
    names = [vocabulary.rare(random_) for _ in range(24)]
    result = [f'"""{prose(random_, vocabulary, 90)}"""', "", "import os", f"from {names[0]} import {names[1]}", ""]
    while len(result) < lines:
        name, argument, other = random_.sample(names, 3)
        result.append(f"def {name}_{other}(self, {argument}: str, {other}: int = {random_.randint(0, 99)}) -> bool:")
        result.append(f'    """{prose(random_, vocabulary, 60)}"""')
        for _ in range(random_.randint(3, 12)):
            left, right = random_.sample(names, 2)
            result.append(
                random_.choice(
                    (
                        f"    {left} = self.{right}({argument}, {random_.randint(0, 999)})",
                        f"    if {left} is None or {right} > {random_.randint(0, 99)}:",
                        f'        raise ValueError(f"{left} is not {{{right}!r}}")',
                        f"    for {left} in {right}.items():",
                        f"        self._{left}[{right}] = {argument}.{left}",
                        f"    # {prose(random_, vocabulary, 40)}",
                    )
                ).replace("\n", " ")
            )
        result += [f"    return {names[2]}", ""]
    return result[:lines]


def numbered(lines: list[str], first: int) -> str:
    """Return lines as the Read tool shows them, with their numbers."""
    return "\n".join(f"{number:6}\u2192{line}" for number, line in enumerate(lines, first))


def listing(random_: random.Random, vocabulary: Vocabulary, lines: int) -> str:
    """Return what a test runner or a build prints."""
    names = [vocabulary.rare(random_) for _ in range(12)]
    return "\n".join(
        f"src/{random_.choice(names)}/test_{random_.choice(names)}.py::test_{random_.choice(names)} "
        f"PASSED [{100 * line // lines:3}%] {random_.randint(1, 900)}ms"
        for line in range(lines)
    )


def uuid(random_: random.Random) -> str:
    """Return a random UUID."""
    digits = f"{random_.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def token(random_: random.Random, size: int) -> str:
    """Return ``size`` characters of base64, as signatures and ids are."""
    return "".join(random_.choices(BASE64, k=size))


def lognormal_size(random_: random.Random, median: int, smallest: int, largest: int) -> int:
    """Return a size as sizes of messages are spread: many small, few large."""
    return min(max(int(random_.lognormvariate(0, 1.0) * median), smallest), largest)
