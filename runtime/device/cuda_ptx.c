/* SPDX-License-Identifier: Apache-2.0
 *
 * The text is straight-line code that loops here write. SHA-256: FIPS 180-4 section 6.2; Philox and
 * the quantile as in runtime/base/philox.c, every operation rounded by itself.
 */
#include "runtime/device/cuda_ptx.h"

#include "runtime/base/hash.h"
#include "runtime/base/quantile.h"
#include "runtime/base/sha256.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define P(...) tsr_buffer_printf(out, __VA_ARGS__)

/* *%i of thread i; to DONE where there is no such element. */
static void print_index(tsr_buffer *out) {
    P("mov.u32 %%r0, %%ctaid.x;\nmov.u32 %%r1, %%ntid.x;\nmov.u32 %%r2, %%tid.x;\n"
      "mul.wide.u32 %%i, %%r0, %%r1;\ncvt.u64.u32 %%l0, %%r2;\nadd.u64 %%i, %%i, %%l0;\n"
      "setp.ge.u64 %%p0, %%i, %%count;\n@%%p0 bra DONE;\n");
}

/* ---- leaves ---- */

enum { WORDS = 16, ROUNDS = 64, STATE = 8, BLOCK_BYTES = 64 };

static void print_xor_of_turns(tsr_buffer *out, const char *to, const char *of, const char *last,
                               int a, int b, int c) {
    P("shf.r.wrap.b32 %%t0, %s, %s, %d;\nshf.r.wrap.b32 %%t1, %s, %s, %d;\n", of, of, a, of, of, b);
    if (strcmp(last, "shr") == 0)
        P("shr.u32 %%t2, %s, %d;\n", of, c);
    else
        P("shf.r.wrap.b32 %%t2, %s, %s, %d;\n", of, of, c);
    P("lop3.b32 %s, %%t0, %%t1, %%t2, 0x96;\n", to);
}

/* %w<word> becomes that of 16 rounds later. */
static void print_schedule(tsr_buffer *out, int word) {
    char a[8], b[8];
    snprintf(a, sizeof a, "%%w%d", (word + 1) % WORDS);
    snprintf(b, sizeof b, "%%w%d", (word + 14) % WORDS);
    print_xor_of_turns(out, "%u0", a, "shr", 7, 18, 3);
    print_xor_of_turns(out, "%u1", b, "shr", 17, 19, 10);
    P("add.u32 %%w%d, %%w%d, %%u0;\nadd.u32 %%u1, %%u1, %%w%d;\nadd.u32 %%w%d, %%w%d, %%u1;\n",
      word, word, (word + 9) % WORDS, word, word);
}

/* One of 16, whose constants begin at %c. */
static void print_round(tsr_buffer *out, int round) {
    char name[STATE][8];
    for (int i = 0; i < STATE; i++)
        snprintf(name[i], sizeof name[i], "%%s%d", (i + STATE * WORDS - round) % STATE);
    print_xor_of_turns(out, "%u0", name[4], "", 6, 11, 25);
    P("lop3.b32 %%t0, %s, %s, %s, 0xca;\nadd.u32 %%u0, %%u0, %%t0;\n", name[4], name[5], name[6]);
    P("ld.const.u32 %%t2, [%%c+%d];\nadd.u32 %%t1, %%w%d, %%t2;\nadd.u32 %%u0, %%u0, %s;\n"
      "add.u32 %%u0, %%u0, %%t1;\n",
      4 * round, round, name[7]);
    P("add.u32 %s, %s, %%u0;\n", name[3], name[3]);
    print_xor_of_turns(out, "%u1", name[0], "", 2, 13, 22);
    P("lop3.b32 %%t0, %s, %s, %s, 0xe8;\nadd.u32 %%u1, %%u1, %%t0;\nadd.u32 %s, %%u0, %%u1;\n",
      name[0], name[1], name[2], name[7]);
}

/* Three times 16 and then the last 16, which need no schedule: as fast as 64 in a row, and a driver
 * translates them in less time. */
static void print_rounds(tsr_buffer *out) {
    P("mov.u64 %%c, constants;\nmov.u32 %%q, 0;\nSIXTEEN:\n");
    for (int round = 0; round < WORDS; round++) {
        print_round(out, round);
        print_schedule(out, round);
    }
    P("add.u64 %%c, %%c, %d;\nadd.u32 %%q, %%q, 1;\nsetp.lt.u32 %%p1, %%q, %d;\n@%%p1 bra "
      "SIXTEEN;\n",
      4 * WORDS, ROUNDS / WORDS - 1);
    for (int round = 0; round < WORDS; round++) print_round(out, round);
}

/* The block behind the last one holds the end mark and the length in bits. */
static void print_load(tsr_buffer *out) {
    P("setp.eq.u32 %%p1, %%k, %d;\n@%%p1 bra LAST;\n", TSR_HASH_LEAF_BYTES / BLOCK_BYTES);
    for (int i = 0; i < WORDS; i += 4)
        P("ld.global.v4.u32 {%%w%d, %%w%d, %%w%d, %%w%d}, [%%at+%d];\n", i, i + 1, i + 2, i + 3,
          4 * i);
    for (int i = 0; i < WORDS; i++) P("prmt.b32 %%w%d, %%w%d, 0, 0x0123;\n", i, i);
    P("bra ROUNDS;\nLAST:\n");
    for (int i = 0; i < WORDS; i++)
        P("mov.u32 %%w%d, %" PRIu32 ";\n", i,
          i == 0           ? UINT32_C(1) << 31
          : i == WORDS - 1 ? (uint32_t)TSR_HASH_LEAF_BYTES * 8
                           : 0);
    P("ROUNDS:\n");
}

static void print_leaves(tsr_buffer *out) {
    P(".const .align 4 .u32 constants[%d] = {", ROUNDS);
    for (int i = 0; i < ROUNDS; i++) P("%s0x%08" PRIx32, i ? ", " : "", tsr_sha256_constants[i]);
    P("};\n");
    P(".visible .entry " TSR_CUDA_PTX_LEAVES "(.param .u64 bytes, .param .u64 digests, .param .u64 "
      "number) {\n.reg .b32 %%r<3>, %%t<3>, %%u<2>, %%w<16>, %%s<8>, %%o<8>, %%k, %%q;\n"
      ".reg .b64 %%i, %%l<2>, %%count, %%at, %%to, %%c;\n.reg .pred %%p<2>;\n"
      "ld.param.u64 %%count, [number];\n");
    print_index(out);
    P("ld.param.u64 %%at, [bytes];\nmad.lo.u64 %%at, %%i, %d, %%at;\nld.param.u64 %%to, "
      "[digests];\n"
      "mad.lo.u64 %%to, %%i, %d, %%to;\nmov.u32 %%k, 0;\n",
      TSR_HASH_LEAF_BYTES, TSR_DIGEST_BYTES);
    for (int i = 0; i < STATE; i++) P("mov.u32 %%s%d, 0x%08" PRIx32 ";\n", i, tsr_sha256_begin[i]);
    P("NEXT:\n");
    print_load(out);
    for (int i = 0; i < STATE; i++) P("mov.u32 %%o%d, %%s%d;\n", i, i);
    print_rounds(out);
    for (int i = 0; i < STATE; i++) P("add.u32 %%s%d, %%s%d, %%o%d;\n", i, i, i);
    P("add.u64 %%at, %%at, %d;\nadd.u32 %%k, %%k, 1;\nsetp.le.u32 %%p1, %%k, %d;\n@%%p1 bra "
      "NEXT;\n",
      BLOCK_BYTES, TSR_HASH_LEAF_BYTES / BLOCK_BYTES);
    for (int i = 0; i < STATE; i++) P("prmt.b32 %%s%d, %%s%d, 0, 0x0123;\n", i, i);
    P("st.global.v4.u32 [%%to], {%%s0, %%s1, %%s2, %%s3};\n"
      "st.global.v4.u32 [%%to+16], {%%s4, %%s5, %%s6, %%s7};\nDONE:\nret;\n}\n");
}

/* ---- normals ---- */

/* Of the PTX's notation. */
static void print_number(tsr_buffer *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    P("0d%016" PRIX64, bits);
}

/* to = of <op> value */
static void print_with(tsr_buffer *out, const char *op, const char *to, const char *of,
                       double value) {
    P("%s.rn.f64 %s, %s, ", op, to, of);
    print_number(out, value);
    P(";\n");
}

static void print_polynomial(tsr_buffer *out, const char *to,
                             const double terms[static TSR_QUANTILE_TERMS], const char *x) {
    P("mov.f64 %s, ", to);
    print_number(out, terms[TSR_QUANTILE_TERMS - 1]);
    P(";\n");
    for (int i = TSR_QUANTILE_TERMS - 2; i >= 0; i--) {
        P("mul.rn.f64 %s, %s, %s;\n", to, to, x);
        print_with(out, "add", to, to, terms[i]);
    }
}

static void print_quotient(tsr_buffer *out, const double over[static TSR_QUANTILE_TERMS],
                           const double under[static TSR_QUANTILE_TERMS]) {
    print_polynomial(out, "%y", over, "%x");
    print_polynomial(out, "%z", under, "%x");
    P("div.rn.f64 %%y, %%y, %%z;\n");
}

/* %u, the middle of one of 2^52 intervals, from the words of element %l0. */
static void print_philox(tsr_buffer *out) {
    P("cvt.u32.u64 %%c1, %%l0;\nshr.u64 %%l1, %%l0, 32;\ncvt.u32.u64 %%c2, %%l1;\n"
      "mov.u32 %%c0, 0;\nmov.u32 %%c3, 0;\nld.param.u32 %%k0, [seed];\nld.param.u32 %%k1, "
      "[stream];\n");
    for (int round = 0; round < 10; round++)
        P("mul.hi.u32 %%h0, %%c0, 0xD2511F53;\nmul.lo.u32 %%g0, %%c0, 0xD2511F53;\n"
          "mul.hi.u32 %%h1, %%c2, 0xCD9E8D57;\nmul.lo.u32 %%g1, %%c2, 0xCD9E8D57;\n"
          "lop3.b32 %%c0, %%h1, %%c1, %%k0, 0x96;\nlop3.b32 %%c2, %%h0, %%c3, %%k1, 0x96;\n"
          "mov.u32 %%c1, %%g1;\nmov.u32 %%c3, %%g0;\n"
          "add.u32 %%k0, %%k0, 0x9E3779B9;\nadd.u32 %%k1, %%k1, 0xBB67AE85;\n");
    P("mov.b64 %%l0, {%%c1, %%c0};\nshr.u64 %%l0, %%l0, 12;\ncvt.rn.f64.u64 %%u, %%l0;\n");
    print_with(out, "add", "%u", "%u", 0.5);
    print_with(out, "mul", "%u", "%u", 0x1p-52);
}

/* %y = log %x, of a number that is not subnormal. */
static void print_logarithm(tsr_buffer *out) {
    P("mov.b64 %%l0, %%x;\nshr.u64 %%l1, %%l0, 52;\nand.b64 %%l0, %%l0, 0xFFFFFFFFFFFFF;\n"
      "or.b64 %%l0, %%l0, 0x3FF0000000000000;\nmov.b64 %%m, %%l0;\nsub.s64 %%l1, %%l1, 1023;\n"
      "setp.ge.f64 %%p1, %%m, ");
    print_number(out, 0x1.6a09e667f3bcdp0);
    P(";\n@%%p1 mul.rn.f64 %%m, %%m, ");
    print_number(out, 0.5);
    P(";\n@%%p1 add.s64 %%l1, %%l1, 1;\n");
    print_with(out, "sub", "%f", "%m", 1.0);
    print_with(out, "add", "%m", "%m", 1.0);
    P("div.rn.f64 %%s, %%f, %%m;\nmul.rn.f64 %%z, %%s, %%s;\nmov.f64 %%y, ");
    print_number(out, 2.0 / 23);
    P(";\n");
    for (int odd = 21; odd >= 3; odd -= 2) {
        P("mul.rn.f64 %%y, %%y, %%z;\n");
        print_with(out, "add", "%y", "%y", 2.0 / odd);
    }
    P("cvt.rn.f64.s64 %%k, %%l1;\nmul.rn.f64 %%z, %%s, %%z;\nmul.rn.f64 %%y, %%z, %%y;\n");
    print_with(out, "mul", "%z", "%k", 0x1.a39ef35793c76p-33);
    P("add.rn.f64 %%y, %%y, %%z;\n");
    print_with(out, "mul", "%s", "%s", 2.0);
    P("add.rn.f64 %%y, %%s, %%y;\n");
    print_with(out, "mul", "%k", "%k", 0x1.62e42feep-1);
    P("add.rn.f64 %%y, %%k, %%y;\n");
}

/* %y, the quantile of %u. */
static void print_quantile(tsr_buffer *out) {
    print_with(out, "sub", "%q", "%u", 0.5);
    P("abs.f64 %%x, %%q;\nsetp.gt.f64 %%p1, %%x, ");
    print_number(out, 0.425);
    P(";\n@%%p1 bra TAIL;\nmul.rn.f64 %%x, %%q, %%q;\nneg.f64 %%x, %%x;\n");
    print_with(out, "add", "%x", "%x", 0.180625);
    print_quotient(out, tsr_quantile_center_over, tsr_quantile_center_under);
    P("mul.rn.f64 %%y, %%q, %%y;\nbra WRITE;\nTAIL:\nsetp.lt.f64 %%p2, %%q, 0d0000000000000000;\n"
      "neg.f64 %%x, %%u;\n");
    print_with(out, "add", "%x", "%x", 1.0);
    P("selp.f64 %%x, %%u, %%x, %%p2;\n");
    print_logarithm(out);
    P("neg.f64 %%y, %%y;\nsqrt.rn.f64 %%r, %%y;\nsetp.gt.f64 %%p1, %%r, ");
    print_number(out, 5.0);
    P(";\n@%%p1 bra FAR;\n");
    print_with(out, "sub", "%x", "%r", 1.6);
    print_quotient(out, tsr_quantile_tail_over, tsr_quantile_tail_under);
    P("bra SIGN;\nFAR:\n");
    print_with(out, "sub", "%x", "%r", 5.0);
    print_quotient(out, tsr_quantile_far_over, tsr_quantile_far_under);
    P("SIGN:\n@%%p2 neg.f64 %%y, %%y;\nWRITE:\n");
}

static void print_normals(tsr_buffer *out) {
    P(".visible .entry " TSR_CUDA_PTX_NORMALS "(.param .u64 to, .param .u64 first, .param .u64 "
      "number, .param .f64 a, .param .f64 b, .param .u32 seed, .param .u32 stream) {\n"
      ".reg .b32 %%r<3>, %%c<4>, %%k0, %%k1, %%g<2>, %%h<2>;\n.reg .b64 %%i, %%l<2>, %%count, "
      "%%at;\n"
      ".reg .f64 %%u, %%q, %%x, %%y, %%z, %%m, %%f, %%s, %%k, %%r;\n.reg .f32 %%v;\n"
      ".reg .pred %%p<3>;\nld.param.u64 %%count, [number];\n");
    print_index(out);
    P("ld.param.u64 %%l0, [first];\nadd.u64 %%l0, %%l0, %%i;\n");
    print_philox(out);
    print_quantile(out);
    P("ld.param.f64 %%x, [a];\nld.param.f64 %%z, [b];\nmul.rn.f64 %%y, %%z, %%y;\n"
      "add.rn.f64 %%y, %%x, %%y;\ncvt.rn.f32.f64 %%v, %%y;\nld.param.u64 %%at, [to];\n"
      "mad.lo.u64 %%at, %%i, 4, %%at;\nst.global.f32 [%%at], %%v;\nDONE:\nret;\n}\n");
}

static void print_module(tsr_buffer *out, void (*print)(tsr_buffer *)) {
    P(".version 7.0\n.target sm_80\n.address_size 64\n");
    print(out);
    tsr_buffer_append(out, "", 1);
}

void tsr_cuda_ptx_leaves(tsr_buffer *out) { print_module(out, print_leaves); }
void tsr_cuda_ptx_normals(tsr_buffer *out) { print_module(out, print_normals); }
