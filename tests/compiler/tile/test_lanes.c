/* SPDX-License-Identifier: Apache-2.0
 *
 * The exchanges between elements of a warp, on a CPU: the same ops as on a GPU (tests/gpu), here
 * against plain C.
 */
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <string.h>

enum { COUNT = 256, STEP = 64, WARP = 32, PROGRAMS = COUNT / STEP };

static const char text[] =
    "tile.func @lanes(%x: memref<256xf32>, %from: memref<256xi32>, %shuffled: memref<256xf32>, "
    "%crossed: memref<256xf32>, %gathered: memref<256xf32>, %votes: memref<12xi32>, "
    "%scattered: memref<256xf32>, %ones: memref<256xi32>) grid 4 "
    "attributes {outputs = 6 : i64} {\n"
    "  %c64 = arith.constant 64 : index\n  %c3 = arith.constant 3 : index\n"
    "  %c1 = arith.constant 1 : index\n  %c2 = arith.constant 2 : index\n"
    "  %zero = arith.constant dense<0.0> : vector<32xf32>\n"
    "  %far = arith.constant dense<-0.9> : vector<32xf32>\n"
    "  %high = arith.constant dense<0.95> : vector<32xf32>\n"
    "  %m31 = arith.constant dense<31> : vector<64xi32>\n"
    "  %pid = tile.program_id\n  %at = arith.muli %pid, %c64 : index\n"
    "  %a = tile.load %x[%at] : memref<256xf32> -> vector<64xf32>\n"
    "  %f = tile.load %from[%at] : memref<256xi32> -> vector<64xi32>\n"
    "  %s = tile.shuffle %a, %f : vector<64xf32>, vector<64xi32>\n"
    "  tile.store %s, %shuffled[%at] : vector<64xf32>, memref<256xf32>\n"
    "  %b1 = tile.butterfly %a, 16 : vector<64xf32>\n"
    "  %b2 = tile.butterfly %b1, 1 : vector<64xf32>\n"
    "  tile.store %b2, %crossed[%at] : vector<64xf32>, memref<256xf32>\n"
    "  tile.barrier\n"
    "  %fi = arith.andi %f, %m31 : vector<64xi32>\n"
    "  %idx = arith.index_cast %fi : vector<64xi32> to vector<64xindex>\n"
    "  %g = tile.gather %x[%idx] : memref<256xf32>, vector<64xindex> -> vector<64xf32>\n"
    "  tile.store %g, %gathered[%at] : vector<64xf32>, memref<256xf32>\n"
    "  %atv = vector.broadcast %at : index to vector<64xindex>\n"
    "  %to = arith.addi %atv, %idx : vector<64xindex>\n"
    "  %none = arith.constant dense<0.0> : vector<64xf32>\n"
    "  tile.store %none, %scattered[%at] : vector<64xf32>, memref<256xf32>\n"
    "  tile.barrier\n"
    "  %ff = arith.sitofp %fi : vector<64xi32> to vector<64xf32>\n"
    "  tile.scatter %ff, %scattered[%to] : vector<64xf32>, memref<256xf32>, vector<64xindex>\n"
    "  %o = math.ctpop %f : vector<64xi32>\n"
    "  tile.store %o, %ones[%at] : vector<64xi32>, memref<256xi32>\n"
    "  %h = tile.load %x[%at] : memref<256xf32> -> vector<32xf32>\n"
    "  %c = arith.cmpf ogt, %h, %zero : vector<32xf32>\n"
    "  %d = arith.cmpf ogt, %h, %far : vector<32xf32>\n"
    "  %e = arith.cmpf ogt, %h, %high : vector<32xf32>\n"
    "  %all = tile.vote \"all\" %d : vector<32xi1> -> i1\n"
    "  %bits = tile.vote \"ballot\" %c : vector<32xi1> -> i32\n"
    "  %any = tile.vote \"any\" %e : vector<32xi1> -> i1\n"
    "  %ai = arith.extui %all : i1 to i32\n  %ni = arith.extui %any : i1 to i32\n"
    "  %v0 = arith.muli %pid, %c3 : index\n  %v1 = arith.addi %v0, %c1 : index\n"
    "  %v2 = arith.addi %v0, %c2 : index\n"
    "  tile.store %ai, %votes[%v0] : i32, memref<12xi32>\n"
    "  tile.store %bits, %votes[%v1] : i32, memref<12xi32>\n"
    "  tile.store %ni, %votes[%v2] : i32, memref<12xi32>\n"
    "  tile.return\n}\n";

typedef struct data {
    float x[COUNT], shuffled[COUNT], crossed[COUNT], gathered[COUNT], scattered[COUNT];
    int32_t from[COUNT], ones[COUNT];
    uint32_t votes[3 * PROGRAMS];
} data;

static void expect(data *d) {
    for (int i = 0; i < COUNT; i++) {
        d->shuffled[i] = d->x[i / WARP * WARP + (d->from[i] & (WARP - 1))];
        d->crossed[i] = d->x[i ^ 17];
        d->gathered[i] = d->x[d->from[i] & (WARP - 1)];
        d->scattered[i / STEP * STEP + (d->from[i] & (WARP - 1))] =
            (float)(d->from[i] & (WARP - 1));
        d->ones[i] = __builtin_popcount((unsigned)d->from[i]);
    }
    for (int p = 0; p < PROGRAMS; p++) {
        uint32_t *votes = d->votes + 3 * p;
        votes[0] = 1, votes[1] = votes[2] = 0;
        for (int i = 0; i < WARP; i++) {
            float x = d->x[STEP * p + i];
            votes[0] = votes[0] && x > -0.9f;
            votes[1] |= (uint32_t)(x > 0) << i;
            votes[2] = votes[2] || x > 0.95f;
        }
    }
}

Test(lanes, exchange) {
    fixture f = {0};
    random_state random = {11};
    static data wanted, got;
    random_fill(&random, TSR_DTYPE_F32, wanted.x, COUNT, -1, 1);
    for (int i = 0; i < STEP; i++) wanted.x[i] = 0.5f + wanted.x[i] / 4; /* all, none */
    for (int i = 0; i < COUNT; i++) wanted.from[i] = (int32_t)random_u64(&random);
    expect(&wanted);
    fixture_open(&f, text);
    const argument arguments[] = {{wanted.x, sizeof wanted.x},  {wanted.from, sizeof wanted.from},
                                  {NULL, sizeof got.shuffled},  {NULL, sizeof got.crossed},
                                  {NULL, sizeof got.gathered},  {NULL, sizeof got.votes},
                                  {NULL, sizeof got.scattered}, {NULL, sizeof got.ones}};
    void *const outputs[] = {got.shuffled, got.crossed,   got.gathered,
                             got.votes,    got.scattered, got.ones};
    kernel_test(&f, "lanes", arguments, 8, outputs, NULL, NULL);
    cr_assert_arr_eq(got.shuffled, wanted.shuffled, sizeof got.shuffled);
    cr_assert_arr_eq(got.crossed, wanted.crossed, sizeof got.crossed);
    cr_assert_arr_eq(got.gathered, wanted.gathered, sizeof got.gathered);
    cr_assert_arr_eq(got.votes, wanted.votes, sizeof got.votes);
    cr_assert_arr_eq(got.scattered, wanted.scattered, sizeof got.scattered);
    cr_assert_arr_eq(got.ones, wanted.ones, sizeof got.ones);
    fixture_close(&f);
}
