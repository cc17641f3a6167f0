"""LETOR text into labels, query ids, features and names, in one pass over its bytes, and what these need.

Numbers of up to 15 digits and powers of ten up to 22 are exact as doubles, so that one operation rounds their quotient
or product as a decimal text is to be rounded, and single precision holds all of them. Everything else is left to the
reference.
"""

import numpy as np

from rankbound.kernels import compiled, exact_part

SPACE, TAB, NEWLINE, RETURN = ord(" "), ord("\t"), ord("\n"), ord("\r")
HASH, COLON, EQUALS, PLUS, MINUS, POINT = ord("#"), ord(":"), ord("="), ord("+"), ord("-"), ord(".")
ZERO, SMALL_E, LARGE_E = ord("0"), ord("e"), ord("E")
QUERY_KEY = np.frombuffer(b"qid:", np.uint8)
NAME_KEY = np.frombuffer(b"docid", np.uint8)
POWERS = np.array([float(10**exponent) for exponent in range(23)])
MOST_DIGITS = 15


@exact_part
def is_space(byte):
    return byte == SPACE or TAB <= byte <= RETURN


@exact_part
def past_space(text, i):
    """Return the index of the next byte that is no space, or ends the line."""
    while is_space(text[i]) and text[i] != NEWLINE:
        i += 1
    return i


@exact_part
def starts_with(text, i, key):
    # The line's end is in no key, so that nothing is read past it.
    k = 0
    while k < len(key) and text[i + k] == key[k]:
        k += 1
    return k == len(key)


@exact_part
def whole(text, i):
    """Return the whole number at i and the index after it; -1 for that without digits or with too many."""
    begin, value = i, 0
    while ZERO <= text[i] < ZERO + 10:
        value = 10 * value + (text[i] - ZERO)
        i += 1
        if i - begin > MOST_DIGITS:
            return 0, -1
    return value, i if i > begin else -1


@exact_part
def number(text, i):
    """Return the decimal number at i and the index after it; -1 for that where it is none, or not exact."""
    sign = -1.0 if text[i] == MINUS else 1.0
    i += text[i] == MINUS or text[i] == PLUS
    mantissa, significant, digits, behind, pointed = 0, 0, 0, 0, False
    while significant <= MOST_DIGITS:
        if ZERO <= text[i] < ZERO + 10:
            mantissa = 10 * mantissa + (text[i] - ZERO)
            significant += mantissa > 0
            digits += 1
            behind += pointed
        elif text[i] == POINT and not pointed:
            pointed = True
        else:
            break
        i += 1
    if digits == 0 or significant > MOST_DIGITS:
        return 0.0, -1
    power = 0
    if text[i] == SMALL_E or text[i] == LARGE_E:
        negative = text[i + 1] == MINUS
        power, i = whole(text, i + 1 + (negative or text[i + 1] == PLUS))
        power = -power if negative else power
    power -= behind
    if i < 0 or abs(power) >= len(POWERS):
        return 0.0, -1
    # Rounded once.
    return sign * (float(mantissa) / POWERS[-power] if power < 0 else float(mantissa) * POWERS[power]), i


@exact_part
def pairs(text, i, smallest, features):
    """Write the pairs from i on; return the index of the comment or of the line's end, -1 where a pair is irregular."""
    previous = smallest - 1
    while text[i] != NEWLINE and text[i] != HASH:
        index, i = whole(text, i)
        if i < 0 or text[i] != COLON or index <= previous or index - smallest >= len(features):
            return -1
        value, i = number(text, i + 1)
        if i < 0 or not (is_space(text[i]) or text[i] == HASH):
            return -1
        features[index - smallest] = value
        previous = index
        i = past_space(text, i)
    return i


@exact_part
def head(text, i):
    """Return the label at i, the query's number, and the index of the first pair; -1 for that if irregular."""
    label, i = whole(text, i)
    if i < 0 or not is_space(text[i]):
        return 0, 0, -1
    i = past_space(text, i)
    if not starts_with(text, i, QUERY_KEY):
        return 0, 0, -1
    query, i = whole(text, i + len(QUERY_KEY))
    if i < 0 or not (is_space(text[i]) or text[i] == HASH):
        return 0, 0, -1
    return label, query, past_space(text, i)


@exact_part
def document_name(text, i):
    """Return where the name of `docid = name` in a comment from i on begins and ends; an empty one without a name."""
    while text[i] != NEWLINE:
        if starts_with(text, i, NAME_KEY):
            begin = past_space(text, i + len(NAME_KEY))
            if text[begin] == EQUALS:
                begin = past_space(text, begin + 1)
                end = begin
                while not is_space(text[end]):
                    end += 1
                if end > begin:
                    return begin, end
        i += 1
    return i, i


@exact_part
def write_whole(value, names, at):
    """Write a number's digits; return the index after them."""
    length, rest = 1, value // 10
    while rest > 0:
        length += 1
        rest //= 10
    for k in range(at + length - 1, at - 1, -1):
        names[k] = ZERO + value % 10
        value //= 10
    return at + length


@exact_part
def write_name(text, i, query, line, names, at):
    """Write the name of a line's item, or `query-line`; return the index after it, -1 for other than ASCII."""
    begin, end = document_name(text, i)
    if begin == end:
        at = write_whole(query, names, at)
        names[at] = MINUS
        return write_whole(line, names, at + 1)
    for k in range(begin, end):
        if text[k] >= 128:
            return -1
        names[at + k - begin] = text[k]
    return at + end - begin


@compiled("i8(u1[::1],i8,i8,i8,i1[::1],i8[::1],i8[::1],f4[:,::1],u1[::1],i4[::1])", exact=True)
def parse(text, first, largest_label, smallest, labels, queries, lines, features, names, ends):
    """Write the rows of whole lines, numbered from `first`, with feature indices from `smallest` on.

    Return how many there are, or -1 if any line is irregular or the arrays hold fewer.
    """
    row, line, i = 0, first, 0
    while i < len(text):
        i = past_space(text, i)
        if text[i] != NEWLINE and text[i] != HASH:
            label, query, i = head(text, i)
            if i < 0 or label > largest_label or row == len(labels):
                return -1
            i = pairs(text, i, smallest, features[row])
            if i < 0:
                return -1
            ends[row + 1] = write_name(text, i, query, line, names, ends[row])
            if ends[row + 1] < 0:
                return -1
            labels[row], queries[row], lines[row] = label, query, line
            row += 1
        while text[i] != NEWLINE:
            i += 1
        i += 1
        line += 1
    return row


@compiled("i8(u1[::1],i8[::1])", exact=True)
def extent(text, found):
    """Write the smallest index (1 if all are larger) and the largest one, the largest label, and the number of lines.

    Return how many rows there are, or -1 if the first or last pair of any line is irregular.
    """
    smallest, largest, most, lines, rows, i = 1, 0, 0, 0, 0, 0
    while i < len(text):
        i = past_space(text, i)
        if text[i] != NEWLINE and text[i] != HASH:
            label, _, i = head(text, i)
            if i < 0:
                return -1
            begin = i
            while text[i] != NEWLINE and text[i] != HASH:
                i += 1
            if i > begin:
                last = i - 1
                while is_space(text[last]):
                    last -= 1
                while not is_space(text[last - 1]):
                    last -= 1
                first, behind = whole(text, begin)
                index, end = whole(text, last)
                if behind < 0 or end < 0 or text[behind] != COLON or text[end] != COLON:
                    return -1
                if first == 0 and behind > begin + 1:
                    return -1
                smallest, largest = min(smallest, first), max(largest, index)
            most = max(most, label)
            rows += 1
        while text[i] != NEWLINE:
            i += 1
        i += 1
        lines += 1
    found[0], found[1], found[2], found[3] = smallest, largest, most, lines
    return rows
