/* SPDX-License-Identifier: Apache-2.0
 *
 * FIPS 180-4 section 6.2 with the SHA extensions of x86 (Intel SDM, SHA256RNDS2, SHA256MSG1,
 * SHA256MSG2). A lane is one message: its state in the order of the instructions (ABEF, CDGH) and
 * the last 16 words of its schedule. Every step is done for both lanes before the next. Other
 * processors use the second half of this file: hash.c then hashes leaf by leaf.
 */
#include "runtime/base/hash/sha256_pair.h"

#include "runtime/base/hash/sha256.h"

#ifdef __x86_64__

#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <string.h>

#define SHA __attribute__((target("sha,sse4.1,ssse3")))
#define SHA_INLINE __attribute__((target("sha,sse4.1,ssse3"), always_inline)) static inline

enum { LANES = 2, BLOCK_BYTES = 64, GROUPS = 16 }; /* a group: four rounds */

typedef struct lane {
    __m128i abef, cdgh, words[4];
} lane;

static bool detect(void) {
    enum { LEAF_FEATURES = 7, SHA_BIT = 29 }; /* Intel SDM, CPUID: EBX of leaf 7 */
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid_count(LEAF_FEATURES, 0, &eax, &ebx, &ecx, &edx) && (ebx >> SHA_BIT & 1) &&
           __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3");
}

/* CPUID traps in a virtual machine, which takes microseconds, so it is queried once. */
bool tsr_sha256_pair_available(void) {
    enum { UNKNOWN, ABSENT, PRESENT };
    static atomic_int known = UNKNOWN;
    int state = atomic_load_explicit(&known, memory_order_relaxed);
    if (state == UNKNOWN) {
        state = detect() ? PRESENT : ABSENT;
        atomic_store_explicit(&known, state, memory_order_relaxed);
    }
    return state == PRESENT;
}

/* Loads big-endian words of the message. */
SHA_INLINE __m128i load_words(const unsigned char *at) {
    const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)at), order);
}

/* W[t] of the schedule for the four t of a group, from the previous four groups. */
SHA_INLINE __m128i next_words(const lane *l, int group) {
    __m128i before = l->words[(group + 3) & 3];
    __m128i sum =
        _mm_add_epi32(_mm_sha256msg1_epu32(l->words[group & 3], l->words[(group + 1) & 3]),
                      _mm_alignr_epi8(before, l->words[(group + 2) & 3], 4));
    return _mm_sha256msg2_epu32(sum, before);
}

SHA_INLINE void run_group(lane *l, const unsigned char *block, int group) {
    __m128i words = group < 4 ? load_words(block + 16 * group) : next_words(l, group);
    l->words[group & 3] = words;
    words = _mm_add_epi32(
        words, _mm_loadu_si128((const __m128i *)(const void *)(tsr_sha256_constants + 4 * group)));
    l->cdgh = _mm_sha256rnds2_epu32(l->cdgh, l->abef, words);
    l->abef = _mm_sha256rnds2_epu32(l->abef, l->cdgh, _mm_shuffle_epi32(words, 0x0e));
}

SHA static void run_blocks(lane lanes[static LANES], const unsigned char *const at[static LANES],
                           size_t size_bytes) {
    lane a = lanes[0], b = lanes[1];
    for (size_t done = 0; done < size_bytes; done += BLOCK_BYTES) {
        const __m128i a_abef = a.abef, a_cdgh = a.cdgh, b_abef = b.abef, b_cdgh = b.cdgh;
#pragma GCC unroll 16
        for (int group = 0; group < GROUPS; group++) {
            run_group(&a, at[0] + done, group);
            run_group(&b, at[1] + done, group);
        }
        a.abef = _mm_add_epi32(a.abef, a_abef);
        a.cdgh = _mm_add_epi32(a.cdgh, a_cdgh);
        b.abef = _mm_add_epi32(b.abef, b_abef);
        b.cdgh = _mm_add_epi32(b.cdgh, b_cdgh);
    }
    lanes[0] = a;
    lanes[1] = b;
}

/* Returns a digest from the lane's words, in the order of the standard. */
SHA static tsr_digest read_digest(const lane *l) {
    tsr_digest digest;
    __m128i feba = _mm_shuffle_epi32(l->abef, 0x1b), dchg = _mm_shuffle_epi32(l->cdgh, 0xb1);
    __m128i dcba = _mm_blend_epi16(feba, dchg, 0xf0), hgef = _mm_alignr_epi8(dchg, feba, 8);
    _Alignas(16) uint32_t words[8];
    _mm_store_si128((__m128i *)(void *)words, dcba);
    _mm_store_si128((__m128i *)(void *)(words + 4), hgef);
    for (size_t i = 0; i < 8; i++) {
        uint32_t word = __builtin_bswap32(words[i]);
        memcpy(digest.bytes + 4 * i, &word, sizeof word);
    }
    return digest;
}

SHA void tsr_sha256_pair(const void *first, const void *second, size_t size_bytes,
                         tsr_digest out_digests[static 2]) {
    /* FIPS 180-4 section 5.3.3 */
    const lane start = {.abef =
                            _mm_set_epi32(0x6a09e667, (int)0xbb67ae85, 0x510e527f, (int)0x9b05688c),
                        .cdgh = _mm_set_epi32(0x3c6ef372, (int)0xa54ff53a, 0x1f83d9ab, 0x5be0cd19)};
    lane lanes[LANES] = {start, start};
    unsigned char padding[BLOCK_BYTES] = {0x80};
    uint64_t bits = __builtin_bswap64((uint64_t)size_bytes * 8);
    memcpy(padding + BLOCK_BYTES - sizeof bits, &bits, sizeof bits);
    TSR_ASSERT(size_bytes % BLOCK_BYTES == 0);
    run_blocks(lanes, (const unsigned char *const[]){first, second}, size_bytes);
    run_blocks(lanes, (const unsigned char *const[]){padding, padding}, BLOCK_BYTES);
    for (size_t i = 0; i < LANES; i++) out_digests[i] = read_digest(&lanes[i]);
}

#else

bool tsr_sha256_pair_available(void) { return false; }

void tsr_sha256_pair(const void *first, const void *second, size_t size_bytes,
                     tsr_digest out_digests[static 2]) {
    out_digests[0] = tsr_hash(first, size_bytes);
    out_digests[1] = tsr_hash(second, size_bytes);
}

#endif
