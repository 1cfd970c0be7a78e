"""Names that mean something else in C, in its headers, in compilers or in what we write."""

from __future__ import annotations

import re

_KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while
    alignas alignof asm bool constexpr false nullptr static_assert thread_local true typeof
    typeof_unqual
"""
# The header is for C++ too.
_CXX_KEYWORDS = """
    and and_eq bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield compl
    concept const_cast consteval constinit decltype delete dynamic_cast explicit export friend
    mutable namespace new noexcept not not_eq operator or or_eq private protected public
    reinterpret_cast requires static_cast template this throw try typeid typename using virtual
    wchar_t xor xor_eq
"""
# C's standard headers, which a program may include before ours.
_MACROS = """
    NULL EOF NAN INFINITY I complex imaginary noreturn assert errno offsetof stdin stdout stderr
    math_errhandling setjmp va_arg va_copy va_end va_start NDEBUG BUFSIZ RAND_MAX CLOCKS_PER_SEC
"""
# What compilers define unless they are told -std=c99 (-std=gnu99 is the default of many).
_SYSTEMS = """
    linux unix i386 arm mips sparc sun vax hpux m68k mc68000 pdp11 AVR MSP430 PPC R3000 MIPSEL
    MIPSEB WIN32 WIN64 WINNT near far huge interrupt
"""
_OURS = "arena status memcpy zeros"
_WORDS = frozenset(f"{_KEYWORDS} {_CXX_KEYWORDS} {_MACROS} {_SYSTEMS} {_OURS}".split())
_FORMS = re.compile(
    r"E[A-Z0-9]+"  # error codes
    r"|(U?INT\w*|SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC|[SU]?(CHAR|SHRT|LONG|LLONG)|CHAR)"
    r"_(MAX|MIN|WIDTH|BIT|C)"
    r"|(FLT|DBL|LDBL|DECIMAL|FP|M|PRI|SCN|SIG|SEEK|LC|HUGE)_\w+"
    r"|SIG[A-Z0-9]+|(PRI|SCN)[diouxX]\w+"
    r"|(u?int\w*|size|ssize|ptrdiff|max_align)_t"
    r"|(k|weight|cuvil|CUVIL)_\w*"
)


def is_taken(name: str) -> bool:
    """Whether a parameter can't be called so: a keyword, a macro, a type, or a name of ours."""
    return name in _WORDS or _FORMS.fullmatch(name) is not None
