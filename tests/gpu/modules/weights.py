# SPDX-License-Identifier: Apache-2.0
"""Which weights of attention are dropped (compiler/ir/samples.h), by NumPy or PyTorch: of positions as their arrays of int64, products modulo 2^64."""
LOW = 0xffffffff


def words(key, counter):
    """Philox4x32-10: Salmon et al., 2011, section 3.3."""
    k, c = list(key), list(counter)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) & LOW ^ c[1] ^ k[0], b & LOW, (a >> 32) & LOW ^ c[3] ^ k[1], a & LOW]
        k = [k[0] + 0x9E3779B9 & LOW, k[1] + 0xBB67AE85 & LOW]
    return c


def mask(i, j, queries, keys, head, step, seed, stream, rate):
    """Of head number `head`, an array or a number below 2^31: whether the weight of query i and key j remains. i, j: arrays that broadcast."""
    tiles = -(-keys // 16)
    room = 32
    while room < 32 * -(-queries // 16) * tiles:
        room *= 2
    counter = (i // 16 * tiles + j // 16) * 32 + i % 8 * 4 + j % 8 // 2 + head * room
    same = counter * 0
    w = words((seed & LOW, stream), (same + (step & LOW), counter & LOW, counter >> 32, same))
    of_query, of_key = i // 8 % 2, j // 8 % 2
    word = (w[0] * (1 - of_query) + w[1] * of_query) * (1 - of_key) + (w[2] * (1 - of_query) + w[3] * of_query) * of_key
    return (word >> (j % 2 * 16) & 0x7fff) * 2.0 ** -15 >= rate
