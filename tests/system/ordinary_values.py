"""What people write into the text columns of messages.  None of it means anything to Wherry."""

import os

NUMBERS = [
    "0", "1", "-1", "7", "007", "1.0", "1e3", "1e400", "-1e400", "42", "65536", "1048575", "1048576",
    "1048577", "3000000", "16777217", "999999999", "1000000001", "2147483647", "2147483648",
    "-2147483649", "4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "18446744073709551616", "0x100000", "+3000000", "3000000.0", "3 000 000",
    "3,000,000", "00003000000", "٣٠٠٠٠٠٠", "3000000" * 3,
]  # fmt: skip
IDS = [
    "f47ac10b-58cc-4372-a567-0e02b2c3d479", "F47AC10B-58CC-4372-A567-0E02B2C3D479",
    "{f47ac10b-58cc-4372-a567-0e02b2c3d479}", "f47ac10b58cc4372a5670e02b2c3d479",
    "01890a5d-ac96-774b-bcce-b302099a8057", "00000000-0000-0000-0000-000000000000",
    "urn:uuid:f47ac10b-58cc-4372-a567-0e02b2c3d479", "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "01arz3ndektsv4rrffq69g5fav", "0ujtsYcgvSTl8PAuAdqWYSMnLOv", "V1StGXR8_Z5jdHi6B-myT",
    "_-AbC0dEfGhIjKlMnOpQr", "507f1f77bcf86cd799439011", "ObjectId(507f1f77bcf86cd799439011)",
    "cus_NffrFeUfNV2Hib", "DE-2026-000017", "A/2026/17", "ord:17:eu-west-1", "sha256-abc", "0xdeadbeef",
]  # fmt: skip
WORDS = [
    "true", "false", "True", "null", "NULL", "None", "nil", "undefined", "NaN", "Infinity",
    "-Infinity", "inf", "-", "--", "-h", "--help", "@file", "~", ".", "..", "/", "*", "%", "%s%n", "%00",
    "$HOME", "${HOME}", "$(id)", "`id`", ":key", "?1", "\\N", "\\.", "\\x41", "\\u0041", "it's", "a\"b",
    "a,b;c", "a|b", "[1,2]", "{}", "{a,b}", "&amp;", "<b>", "#", "wherry", "outbox", "select", "bytes",
]  # fmt: skip
TEXTS = [
    "2026-11-26", "2026-11-26T01:02:03Z", "2026-11-26 01:02:03.123456+01", "20261126", "26.11.2026",
    "1795655284061", "01:02:03", "P1Y2M", "infinity", "now",
    "ann@example.org", "Ann O'Hara <ann+tag@example.org>", "https://example.org/a/b?c=d&e=%2F#f",
    "http://[2001:db8::1]:8080/", "192.0.2.1", "+49 30 901820", "C:\\Temp\\x", "/var/log/a b",
    '{"a": {"b": [1, "c"]}}', '{"a":"{\\"b\\":\\"{}\\"}"}', '"quoted"', "[]", '{"headers": 3000000}',
    " leading", "trailing ", "two  blanks", "tab\tinside", "line\nbreak", "cr\rlf\n", "\u00a0nbsp",
]  # fmt: skip
NAMES = [
    "Zoë Müller-Łukasz", "Ελένη Παπαδοπούλου", "Анна Иванова", "דוד כהן", "محمد علي", "李小龍", "山田 太郎",
    "김철수", "प्रिया शर्मा", "สมชาย ใจดี", "Ἀχιλλεύς", "ქეთი", "Հայկ", "é (decomposed e\u0301)", "\U0001f600\U0001f1e9\U0001f1ea",
    "\u200bzero width", "\u202eright to left", "\ufeffmark", "\uffff", "\U0010fffd", "\x80\x9f", "ı İ ß ﬁ",
]  # fmt: skip
SHORT = ["", "a", " ", "'", '"', "\\", "\x7f"]
CONTROLS = [chr(n) + rest for n in range(1, 32) for rest in ("99999999" if n in (1, 9) else "x",)]
LONG = ["x" * 200, "9" * 200, "é" * 100]

VALUES = NUMBERS + IDS + WORDS + TEXTS + NAMES + SHORT + CONTROLS + LONG
# Where each value costs a process.
FEW = ["3000000", "007", "true", "null", "--help", "@file", "it's", '{"a": 1}', "\x0199999999", "山田 太郎", "",
       IDS[0]]  # fmt: skip
# Of the suite of a patch.
PART = int(os.environ.get("WHERRY_TEST_PART") or 1)
VALUES = list(dict.fromkeys(VALUES[::PART] + FEW)) if PART > 1 else VALUES


def alike(value, n):
    """The n-th text that is like value, where a column holds each only once."""
    if n == 0:
        return value
    return value + str(n) if value[-1:].isdigit() and value.isascii() else f"{value} {n}"
