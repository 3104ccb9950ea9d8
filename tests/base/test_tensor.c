/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "runtime/base/tensor.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

Test(tensor, names_both_ways) {
    static const struct {
        tsr_dtype dtype;
        size_t size;
        const char *mlir, *safetensors, *numpy;
    } want[] = {
        {TSR_DTYPE_F64, 8, "f64", "F64", "<f8"},
        {TSR_DTYPE_F32, 4, "f32", "F32", "<f4"},
        {TSR_DTYPE_I64, 8, "i64", "I64", "<i8"},
        {TSR_DTYPE_I32, 4, "i32", "I32", "<i4"},
        {TSR_DTYPE_I1, 1, "i1", "BOOL", "|b1"},
        {TSR_DTYPE_UI8, 1, "ui8", "U8", "|u1"},
        {TSR_DTYPE_BF16, 2, "bf16", "BF16", "|V2"},
        {TSR_DTYPE_F16, 2, "f16", "F16", "<f2"},
        {TSR_DTYPE_I8, 1, "i8", "I8", "|i1"},
        {TSR_DTYPE_I16, 2, "i16", "I16", "<i2"},
        {TSR_DTYPE_UI16, 2, "ui16", "U16", "<u2"},
        {TSR_DTYPE_UI32, 4, "ui32", "U32", "<u4"},
        {TSR_DTYPE_UI64, 8, "ui64", "U64", "<u8"},
        {TSR_DTYPE_F8E4M3FN, 1, "f8E4M3FN", "F8_E4M3", "|V1"},
        {TSR_DTYPE_F8E5M2, 1, "f8E5M2", "F8_E5M2", "|V1"},
        {TSR_DTYPE_F8E8M0FNU, 1, "f8E8M0FNU", "F8_E8M0", "|V1"},
    };
    for (size_t i = 0; i < TSR_COUNT(want); i++) {
        tsr_dtype dtype = want[i].dtype;
        cr_assert_eq((size_t)dtype, i + 1, "wire numbers are never reused");
        cr_assert_eq(tsr_dtype_size(dtype), want[i].size);
        cr_assert_str_eq(tsr_dtype_name(dtype), want[i].mlir);
        cr_assert_str_eq(tsr_dtype_safetensors_name(dtype), want[i].safetensors);
        cr_assert_str_eq(tsr_dtype_numpy_name(dtype), want[i].numpy);
        cr_assert_eq(tsr_dtype_from_name(want[i].mlir), dtype);
        cr_assert_eq(tsr_dtype_from_safetensors(want[i].safetensors), dtype);
        cr_assert_eq(tsr_dtype_from_numpy(want[i].numpy),
                     tsr_dtype_is_small(dtype) ? TSR_DTYPE_F8E4M3FN : dtype);
    }
    cr_assert_eq(tsr_dtype_from_name("f8"), TSR_DTYPE_NONE);
    cr_assert_eq(tsr_dtype_from_name("F32"), TSR_DTYPE_NONE);
    cr_assert_eq(tsr_dtype_from_numpy("<V2"), TSR_DTYPE_BF16);
    cr_assert_eq(tsr_dtype_from_numpy(">f4"), TSR_DTYPE_NONE, "big-endian");
    cr_assert_eq(tsr_dtype_size((tsr_dtype)(TSR_DTYPE_COUNT + 1)), 0);
    cr_assert_eq(tsr_dtype_size(TSR_DTYPE_NONE), 0);
    cr_assert_str_eq(tsr_dtype_name((tsr_dtype)200), "?");
}

Test(tensor, counts_and_sizes) {
    uint64_t value = 77;
    cr_assert(tsr_shape_count(&(tsr_shape){0}, &value));
    cr_assert_eq(value, 1, "a scalar has one element");
    cr_assert(tsr_shape_size(&(tsr_shape){3, {2, 3, 5}}, TSR_DTYPE_F64, &value));
    cr_assert_eq(value, 240);
    cr_assert(tsr_shape_count(&(tsr_shape){2, {0, 7}}, &value));
    cr_assert_eq(value, 0);
    cr_assert(tsr_shape_count(&(tsr_shape){1, {INT64_MAX}}, &value));
    cr_assert_eq(value, INT64_MAX);
}

Test(tensor, kinds_of_dtypes) {
    static const struct {
        tsr_dtype dtype;
        unsigned bits;
        bool is_float, is_signed, is_unsigned;
        tsr_dtype stored;
    } want[] = {
        {TSR_DTYPE_F64, 64, true, false, false, TSR_DTYPE_F64},
        {TSR_DTYPE_F32, 32, true, false, false, TSR_DTYPE_F32},
        {TSR_DTYPE_BF16, 16, true, false, false, TSR_DTYPE_BF16},
        {TSR_DTYPE_F16, 16, true, false, false, TSR_DTYPE_F16},
        {TSR_DTYPE_I64, 64, false, true, false, TSR_DTYPE_I64},
        {TSR_DTYPE_I32, 32, false, true, false, TSR_DTYPE_I32},
        {TSR_DTYPE_I8, 8, false, true, false, TSR_DTYPE_I8},
        {TSR_DTYPE_UI8, 8, false, false, true, TSR_DTYPE_I8},
        {TSR_DTYPE_I1, 1, false, false, false, TSR_DTYPE_I8},
        {TSR_DTYPE_I16, 16, false, true, false, TSR_DTYPE_I16},
        {TSR_DTYPE_UI16, 16, false, false, true, TSR_DTYPE_I16},
        {TSR_DTYPE_UI32, 32, false, false, true, TSR_DTYPE_I32},
        {TSR_DTYPE_UI64, 64, false, false, true, TSR_DTYPE_I64},
        {TSR_DTYPE_F8E4M3FN, 8, false, false, false, TSR_DTYPE_I8},
        {TSR_DTYPE_F8E5M2, 8, false, false, false, TSR_DTYPE_I8},
        {TSR_DTYPE_F8E8M0FNU, 8, false, false, false, TSR_DTYPE_I8},
    };
    cr_assert_eq(TSR_COUNT(want), TSR_DTYPE_COUNT);
    for (size_t i = 0; i < TSR_COUNT(want); i++) {
        tsr_dtype dtype = want[i].dtype;
        const char *name = tsr_dtype_name(dtype);
        cr_assert_eq(tsr_dtype_bits(dtype), want[i].bits, "%s", name);
        cr_assert_eq(tsr_dtype_is_float(dtype), want[i].is_float, "%s", name);
        cr_assert_eq(tsr_dtype_is_signed(dtype), want[i].is_signed, "%s", name);
        cr_assert_eq(tsr_dtype_is_unsigned(dtype), want[i].is_unsigned, "%s", name);
        cr_assert_eq(tsr_dtype_stored(dtype), want[i].stored, "%s", name);
        if (!want[i].is_float && !tsr_dtype_is_small(dtype))
            cr_assert_eq(tsr_dtype_of_integer(want[i].bits, want[i].is_unsigned), dtype, "%s",
                         name);
    }
    cr_assert_eq(tsr_dtype_of_integer(4, false), TSR_DTYPE_NONE);
    cr_assert_eq(tsr_dtype_of_integer(1, true), TSR_DTYPE_NONE);
    cr_assert_eq(tsr_dtype_bits((tsr_dtype)(TSR_DTYPE_COUNT + 1)), 0);
    cr_assert_eq(tsr_dtype_bits((tsr_dtype)-1), 0);
}

Test(tensor, ranges_of_integers) {
    static const struct {
        tsr_dtype dtype;
        int64_t low;
        uint64_t high;
    } want[] = {
        {TSR_DTYPE_I64, INT64_MIN, INT64_MAX},
        {TSR_DTYPE_I32, INT32_MIN, INT32_MAX},
        {TSR_DTYPE_I8, INT8_MIN, INT8_MAX},
        {TSR_DTYPE_UI8, 0, UINT8_MAX},
        {TSR_DTYPE_I1, 0, 1},
        {TSR_DTYPE_I16, INT16_MIN, INT16_MAX},
        {TSR_DTYPE_UI16, 0, UINT16_MAX},
        {TSR_DTYPE_UI32, 0, UINT32_MAX},
        {TSR_DTYPE_UI64, 0, UINT64_MAX},
    };
    for (size_t i = 0; i < TSR_COUNT(want); i++) {
        tsr_dtype dtype = want[i].dtype;
        bool is_exact = want[i].high < UINT64_C(1) << 53;
        cr_assert_eq(tsr_dtype_lowest(dtype), want[i].low);
        cr_assert_eq(tsr_dtype_highest(dtype), want[i].high);
        cr_assert(tsr_dtype_holds(dtype, 1) && tsr_dtype_holds(dtype, -0.0));
        cr_assert_not(tsr_dtype_holds(dtype, 0.5));
        cr_assert_not(tsr_dtype_holds(dtype, (double)NAN));
        cr_assert_not(tsr_dtype_holds(dtype, (double)INFINITY));
        cr_assert(tsr_dtype_holds(dtype, (double)want[i].low));
        cr_assert_not(tsr_dtype_holds(dtype, nextafter((double)want[i].low - 1, -INFINITY)));
        /* (double)INT64_MAX is 2^63 */
        cr_assert_eq(tsr_dtype_holds(dtype, (double)want[i].high), is_exact);
        cr_assert_not(tsr_dtype_holds(dtype, (double)want[i].high + 1));
    }
    cr_assert(tsr_dtype_holds(TSR_DTYPE_I64, 0x1p63 - 1024));
    cr_assert(tsr_dtype_holds(TSR_DTYPE_UI64, 0x1p64 - 2048));
}

Test(tensor, small_floats_hold_what_rounds_to_finite_numbers) {
    cr_assert(tsr_dtype_holds(TSR_DTYPE_F8E4M3FN, 464));
    cr_assert_not(tsr_dtype_holds(TSR_DTYPE_F8E4M3FN, 465));
    cr_assert(tsr_dtype_holds(TSR_DTYPE_F8E5M2, 61439));
    cr_assert_not(tsr_dtype_holds(TSR_DTYPE_F8E5M2, 61440));
    cr_assert(tsr_dtype_holds(TSR_DTYPE_F8E8M0FNU, 3));
    cr_assert_not(tsr_dtype_holds(TSR_DTYPE_F8E8M0FNU, 0));
    cr_assert_not(tsr_dtype_holds(TSR_DTYPE_F8E8M0FNU, -1));
}

Test(tensor, overflow_is_seen) {
    uint64_t value = 77, half = UINT64_C(1) << 32;
    cr_assert_not(tsr_shape_count(&(tsr_shape){2, {half, half}}, &value));
    cr_assert_not(tsr_shape_count(&(tsr_shape){2, {half, half / 2}}, &value), "2^63");
    cr_assert_not(tsr_shape_count(&(tsr_shape){1, {UINT64_MAX}}, &value));
    cr_assert_not(tsr_shape_count(&(tsr_shape){3, {0, half, half}}, &value), "behind a zero too");
    cr_assert_not(tsr_shape_count(&(tsr_shape){.rank = TSR_RANK_MAX + 1}, &value));
    cr_assert_not(tsr_shape_size(&(tsr_shape){2, {half, half / 4}}, TSR_DTYPE_F32, &value));
    cr_assert_eq(value, 77, "written only on success");
}

Test(tensor, equality) {
    tsr_shape a = {2, {3, 4}}, b = {2, {3, 4, 9}}, c = {2, {4, 3}}, d = {3, {3, 4, 1}};
    cr_assert(tsr_shape_equal(&a, &b), "what lies behind the rank does not count");
    cr_assert_not(tsr_shape_equal(&a, &c));
    cr_assert_not(tsr_shape_equal(&a, &d));
}

Test(tensor, types_as_text) {
    char text[TSR_TYPE_TEXT_MAX];
    cr_assert_str_eq(tsr_type_format(TSR_DTYPE_F32, &(tsr_shape){2, {64, 128}}, text),
                     "64x128xf32");
    cr_assert_str_eq(tsr_type_format(TSR_DTYPE_UI8, &(tsr_shape){0}, text), "ui8");
    tsr_shape widest = {.rank = TSR_RANK_MAX};
    for (int i = 0; i < TSR_RANK_MAX; i++) widest.dims[i] = UINT64_MAX;
    tsr_type_format(TSR_DTYPE_F32, &widest, text);
    cr_assert_eq(strlen(text), TSR_RANK_MAX * 21 + 3, "the longest type is not cut");
    widest.rank = 4000;
    cr_assert_str_eq(tsr_type_format(TSR_DTYPE_F32, &widest, text) + TSR_RANK_MAX * 21, "f32",
                     "a rank from hostile bytes is not followed");
}

Test(tensor, views_are_found_by_name) {
    static const tsr_tensor views[] = {{.name = "a"}, {.name = "b"}, {.name = "ab"}};
    cr_assert_eq(tsr_tensor_find(views, 3, "ab"), &views[2]);
    cr_assert_eq(tsr_tensor_find(views, 3, "a"), &views[0]);
    cr_assert_null(tsr_tensor_find(views, 2, "ab"));
    cr_assert_null(tsr_tensor_find(NULL, 0, "a"));
}

Test(tensor, sorted_views_are_found_as_others_are) {
    enum { COUNT = 100 };
    static char names[COUNT][8];
    static tsr_tensor views[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "t%02zu.w", i);
        views[i].name = names[i];
    }
    for (size_t count = 0; count <= COUNT; count++)
        for (size_t i = 0; i < COUNT; i++)
            cr_assert_eq(tsr_tensor_find_sorted(views, count, names[i]),
                         tsr_tensor_find(views, count, names[i]));
    static const char *const absent[] = {"", "t", "t05", "t05.w2", "z"};
    for (size_t i = 0; i < TSR_COUNT(absent); i++)
        cr_assert_null(tsr_tensor_find_sorted(views, COUNT, absent[i]));
}

Test(tensor, elements_are_read_by_dtype) {
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_F64, (double[]){1, -0.1}, 1), -0.1);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_F32, (float[]){1, 0.1f}, 1), (double)0.1f);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_I64, (int64_t[]){1, -5000000000}, 1), -5e9);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_I32, (int32_t[]){1, -7}, 1), -7);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_I1, (uint8_t[]){0, 1}, 1), 1);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_UI8, (uint8_t[]){1, 255}, 1), 255);
}

static double narrow(tsr_dtype dtype, unsigned bits) {
    return tsr_dtype_read(dtype, (uint16_t[]){(uint16_t)bits}, 0);
}

static unsigned narrowed(tsr_dtype dtype, double value) {
    uint16_t bits;
    tsr_dtype_write(dtype, value, &bits, 0);
    return bits;
}

/* Tests adjacent numbers and the values between them, with both signs. `infinity` is the first bit
 * pattern that is not a finite number. */
static void check_narrow(tsr_dtype dtype, unsigned infinity) {
    for (unsigned bits = 0; bits < infinity; bits++) {
        double x = narrow(dtype, bits), next = narrow(dtype, bits + 1);
        cr_assert_eq(narrowed(dtype, x), bits);
        cr_assert_eq(narrowed(dtype, -x), bits | 0x8000);
        cr_assert(x < next);
        if (bits + 1 == infinity) next = x + (x - narrow(dtype, bits - 1)); /* one step more */
        double middle = x / 2 + next / 2;
        cr_assert_eq(narrowed(dtype, middle), bits + (bits & 1), "a tie goes to even: %x", bits);
        cr_assert_eq(narrowed(dtype, nextafter(middle, 0)), bits);
        cr_assert_eq(narrowed(dtype, nextafter(middle, INFINITY)), bits + 1);
    }
    cr_assert_eq(narrow(dtype, infinity), INFINITY);
    cr_assert_eq(narrow(dtype, infinity | 0x8000), -INFINITY);
    cr_assert(isnan(narrow(dtype, infinity + 1)));
    cr_assert(isnan(narrow(dtype, narrowed(dtype, (double)NAN))));
    cr_assert_eq(narrowed(dtype, 1e300), infinity);
    cr_assert_eq(narrowed(dtype, -INFINITY), infinity | 0x8000);
}

Test(tensor, nan_is_found_among_infinities) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F64, TSR_DTYPE_F32, TSR_DTYPE_BF16, TSR_DTYPE_F16};
    enum { COUNT = 3 * 512 + 7 };
    static char data[COUNT * 8];
    double value = 0;
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < COUNT; k++)
            tsr_dtype_write(dtypes[i], k % 3 ? (double)-INFINITY : 1.0, data, k);
        cr_assert_eq(tsr_dtype_find_nan(dtypes[i], data, COUNT), UINT64_MAX);
        cr_assert_eq(tsr_dtype_find_nonfinite(dtypes[i], data, COUNT, &value), 1);
        for (size_t at = COUNT; at-- > 0;) {
            if (at % 97 && at + 9 < COUNT) continue;
            tsr_dtype_write(dtypes[i], (double)NAN, data, at);
            cr_assert_eq(tsr_dtype_find_nan(dtypes[i], data, COUNT), at);
        }
    }
    cr_assert_eq(tsr_dtype_find_nan(TSR_DTYPE_I32, data, 9), UINT64_MAX);
}

Test(tensor, sixteen_bit_floats_round_to_nearest_even) {
    check_narrow(TSR_DTYPE_BF16, 0x7f80);
    check_narrow(TSR_DTYPE_F16, 0x7c00);
    cr_assert_eq(narrowed(TSR_DTYPE_F16, 1.0 / 3), 0x3555);
    cr_assert_eq(narrowed(TSR_DTYPE_BF16, 1.0 / 3), 0x3eab);
    cr_assert_eq(narrow(TSR_DTYPE_F16, 0x7bff), 65504);
    cr_assert_eq(narrow(TSR_DTYPE_F16, 1), 0x1p-24);
    cr_assert_eq(narrow(TSR_DTYPE_BF16, 1), 0x1p-133);
}

Test(tensor, elements_are_written_by_dtype) {
    _Alignas(8) unsigned char data[16];
    for (int d = 1; d <= TSR_DTYPE_COUNT; d++) {
        tsr_dtype_write((tsr_dtype)d, 1, data, 1);
        cr_assert_eq(tsr_dtype_read((tsr_dtype)d, data, 1), 1);
    }
    tsr_dtype_write(TSR_DTYPE_I8, -128, data, 3);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_I8, data, 3), -128);
    tsr_dtype_write(TSR_DTYPE_I16, -32768, data, 3);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_I16, data, 3), -32768);
    tsr_dtype_write(TSR_DTYPE_UI16, 65535, data, 3);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_UI16, data, 3), 65535);
    tsr_dtype_write(TSR_DTYPE_UI32, 4294967295.0, data, 1);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_UI32, data, 1), 4294967295.0);
    tsr_dtype_write(TSR_DTYPE_UI64, 0x1p64 - 2048, data, 1);
    cr_assert_eq(tsr_dtype_read(TSR_DTYPE_UI64, data, 1), 0x1p64 - 2048);
    tsr_dtype_write(TSR_DTYPE_I1, 7, data, 0);
    cr_assert_eq(data[0], 1);
}
