/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/array.h"
#include "tests/compiler/fixture.h"

static fixture f;

static void open(void) { fixture_open(&f); }
static void close(void) { fixture_close(&f); }
TestSuite(mlir, .init = open, .fini = close);

static tsr_type type_of(const char *text, bool *out_known) {
    tsr_type type = {0};
    *out_known = tsr_type_read(mlirTypeParseGet(f.mlir, tsr_ref(text)), &type);
    return type;
}

Test(mlir, types_read_and_make) {
    static const char *const known[] = {"tensor<f64>",
                                        "tensor<3x?xf32>",
                                        "tensor<2x3x4xi64>",
                                        "tensor<1xi32>",
                                        "tensor<5xi1>",
                                        "tensor<7xui8>",
                                        "tensor<1x1x1x1x1x1x1x1xf32>",
                                        "tensor<2xi16>",
                                        "tensor<2xui16>",
                                        "tensor<2xui32>",
                                        "tensor<2xui64>"};
    for (size_t i = 0; i < TSR_COUNT(known); i++) {
        bool is_known;
        tsr_type type = type_of(known[i], &is_known);
        cr_assert(is_known, "%s", known[i]);
        cr_assert(mlirTypeEqual(tsr_type_make(f.mlir, &type),
                                mlirTypeParseGet(f.mlir, tsr_ref(known[i]))));
        char text[TSR_TYPE_TEXT_MAX], full[TSR_TYPE_TEXT_MAX + 8];
        snprintf(full, sizeof full, "tensor<%s>", tsr_type_text(&type, text));
        cr_assert_str_eq(full, known[i]);
    }
}

Test(mlir, types_refused) {
    static const char *const unknown[] = {"f32",
                                          "tensor<*xf32>",
                                          "tensor<2xf128>",
                                          "tensor<2xi24>",
                                          "tensor<2xsi8>",
                                          "tensor<2xui1>",
                                          "tensor<1x1x1x1x1x1x1x1x1xf32>"};
    for (size_t i = 0; i < TSR_COUNT(unknown); i++) {
        bool is_known;
        type_of(unknown[i], &is_known);
        cr_assert_not(is_known, "%s", unknown[i]);
    }
    tsr_type type;
    cr_assert_not(tsr_type_read((MlirType){NULL}, &type));
}

static MlirAttribute parse(const char *text) {
    return mlirAttributeParseGet(f.mlir, tsr_ref(text));
}

/* Every dtype, dense and splat, comes back as written and builds the same attribute. */
Test(mlir, elements_round_trip) {
    static const struct {
        const char *text;
        size_t size;
        unsigned char bytes[24];
    } cases[] = {
        {"dense<[1.0, -2.0, 0.5]> : tensor<3xf64>",
         24,
         {0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f}},
        {"dense<[1.0, -2.0]> : tensor<2xf32>", 8, {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}},
        {"dense<-2> : tensor<2xi64>",
         16,
         {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
          0xff}},
        {"dense<[[1], [258]]> : tensor<2x1xi32>", 8, {1, 0, 0, 0, 2, 1, 0, 0}},
        {"dense<[true, false, true]> : tensor<3xi1>", 3, {1, 0, 1}},
        {"dense<true> : tensor<3xi1>", 3, {1, 1, 1}},
        {"dense<[0, 255]> : tensor<2xui8>", 2, {0, 255}},
        {"dense<[-1, 5]> : tensor<2xi8>", 2, {0xff, 5}},
        {"dense<[-2, 5]> : tensor<2xi16>", 4, {0xfe, 0xff, 5, 0}},
        {"dense<[65535, 5]> : tensor<2xui16>", 4, {0xff, 0xff, 5, 0}},
        {"dense<[4294967295, 5]> : tensor<2xui32>", 8, {0xff, 0xff, 0xff, 0xff, 5, 0, 0, 0}},
        {"dense<18446744073709551614> : tensor<1xui64>",
         8,
         {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
        {"dense<[1.0, -2.0]> : tensor<2xbf16>", 4, {0x80, 0x3f, 0, 0xc0}},
        {"dense<0.5> : tensor<2xf16>", 4, {0, 0x38, 0, 0x38}},
        {"dense<5> : tensor<7xui8>", 7, {5, 5, 5, 5, 5, 5, 5}},
        {"dense<> : tensor<0x3xf32>", 0, {0}},
    };
    for (size_t i = 0; i < TSR_COUNT(cases); i++) {
        MlirAttribute attr = parse(cases[i].text);
        tsr_type type;
        void *data;
        cr_assert(tsr_attr_elements(attr, &f.arena, &type, &data), "%s", cases[i].text);
        cr_assert_arr_eq(data, cases[i].bytes, cases[i].size, "%s", cases[i].text);
        cr_assert(mlirAttributeEqual(tsr_attr_make_elements(f.mlir, &type, data), attr), "%s",
                  cases[i].text);
    }
    tsr_type type;
    void *data;
    cr_assert_not(tsr_attr_elements(parse("1 : i64"), &f.arena, &type, &data));
    cr_assert_not(tsr_attr_elements(parse("dense<1.0> : tensor<2xf128>"), &f.arena, &type, &data));
    cr_assert_not(tsr_attr_elements(mlirAttributeGetNull(), &f.arena, &type, &data));
}

Test(mlir, splats) {
    double value;
    cr_assert(tsr_attr_splat(parse("dense<0.5> : tensor<4xf32>"), &value));
    cr_assert_eq(value, 0.5);
    cr_assert(tsr_attr_splat(parse("dense<-7> : tensor<4xi64>"), &value));
    cr_assert_eq(value, -7);
    cr_assert_not(tsr_attr_splat(parse("dense<[1, 2]> : tensor<2xi64>"), &value));
    cr_assert_not(tsr_attr_splat(parse("3.0 : f32"), &value));
    tsr_type type = {.dtype = TSR_DTYPE_F32, .shape = {.rank = 1, .dims = {4}}};
    cr_assert(mlirAttributeEqual(tsr_attr_make_splat(f.mlir, &type, 0.1),
                                 parse("dense<0.1> : tensor<4xf32>")));
}

Test(mlir, attributes_of_ops) {
    cr_assert_eq(fixture_parse(&f, "module { func.func private @f() attributes {s = \"text\", e = "
                                   "\"\", y = @sym, t = true, "
                                   "n = false, u, i = -3 : i64, a = [1, 2], d = array<i64: 4, 5>, "
                                   "m = [1, \"x\"], k = 200 : ui8} }")
                     .code,
                 TSR_OK);
    MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(f.module));
    int64_t value, values[2];
    size_t count;
    cr_assert_str_eq(tsr_op_string(op, "s"), "text");
    cr_assert_str_eq(tsr_op_string(op, "e"), "");
    cr_assert_str_eq(tsr_op_string(op, "y"), "sym");
    cr_assert_null(tsr_op_string(op, "i"));
    cr_assert_null(tsr_op_string(op, "absent"));
    cr_assert(tsr_op_flag(op, "t") && tsr_op_flag(op, "u"));
    cr_assert_not(tsr_op_flag(op, "n") || tsr_op_flag(op, "absent") || tsr_op_flag(op, "s"));
    cr_assert(tsr_op_i64(op, "i", &value) && value == -3);
    cr_assert(tsr_op_i64(op, "k", &value) && value == 200);
    cr_assert_not(tsr_op_i64(op, "s", &value));
    cr_assert(tsr_op_i64s(op, "a", 2, values, &count) && count == 2 && values[1] == 2);
    cr_assert(tsr_op_i64s(op, "d", 2, values, &count) && count == 2 && values[0] == 4);
    cr_assert_not(tsr_op_i64s(op, "a", 1, values, &count), "longer than the limit");
    cr_assert_not(tsr_op_i64s(op, "m", 2, values, &count));
    cr_assert_not(tsr_op_i64s(op, "absent", 2, values, &count));
}

Test(mlir, build_print_parse) {
    cr_assert_eq(fixture_parse(&f, "module {}").code, TSR_OK);
    tsr_builder builder =
        tsr_builder_at_end(mlirModuleGetBody(f.module), mlirLocationUnknownGet(f.mlir));
    tsr_type type = {.dtype = TSR_DTYPE_F32, .shape = {.rank = 1, .dims = {2}}};
    tsr_attr attrs[] = {{"value", tsr_attr_make_splat(f.mlir, &type, 1.5)}, {0}};
    MlirValue value =
        tsr_build_value(&builder, "tessera.constant", NULL, 0, tsr_type_make(f.mlir, &type), attrs);
    cr_assert_not(tsr_value_is_used(value));
    builder.before = tsr_value_owner(value);
    tsr_build_value(&builder, "tessera.step", NULL, 0,
                    mlirTypeParseGet(f.mlir, tsr_ref("tensor<i64>")), NULL);
    tsr_buffer text = {0};
    tsr_mlir_print(mlirModuleGetOperation(f.module), TSR_PRINT_PRETTY, &text);
    cr_assert_str_eq(text.bytes,
                     "module {\n  %0 = tessera.step : tensor<i64>\n"
                     "  %1 = tessera.constant dense<1.500000e+00> : tensor<2xf32>\n}\n");
    tsr_buffer_finish(&text);
    cr_assert_eq(tsr_mlir_verify(&f.ctx, f.module, &f.list, "test").code, TSR_OK);
}

Test(mlir, unknown_pass_is_usage) {
    cr_assert_eq(fixture_parse(&f, "module {}").code, TSR_OK);
    cr_assert_eq(tsr_mlir_run_pass(&f.ctx, f.module, &f.list, "no-such-pass").code, TSR_USAGE);
    cr_assert(strstr(f.ctx.error.text, "no-such-pass"));
    cr_assert_eq(tsr_mlir_run_pass(&f.ctx, f.module, &f.list, "canonicalize,cse").code, TSR_OK);
}

/* Bytecode reads back to the same text. */
static void append(MlirStringRef ref, void *user) { tsr_buffer_append(user, ref.data, ref.length); }

Test(mlir, bytecode) {
    tsr_buffer bytes = {0}, first = {0}, second = {0};
    cr_assert_eq(fixture_parse(&f, "%w = tessera.param \"w\" init = #tessera.uniform<-0.1, 0.1> : "
                                   "tensor<2xf32>")
                     .code,
                 TSR_OK);
    tsr_mlir_print(mlirModuleGetOperation(f.module), TSR_PRINT_PRETTY, &first);
    mlirOperationWriteBytecode(mlirModuleGetOperation(f.module), append, &bytes);
    mlirModuleDestroy(f.module);
    cr_assert_eq(tsr_mlir_parse(&f.ctx, f.mlir, &f.list, bytes.bytes, bytes.size_bytes, "bytecode",
                                &f.module)
                     .code,
                 TSR_OK);
    tsr_mlir_print(mlirModuleGetOperation(f.module), TSR_PRINT_PRETTY, &second);
    cr_assert_str_eq(first.bytes, second.bytes);
    cr_assert(strstr(first.bytes, "#tessera.uniform<-0.1, 0.1>"));
    tsr_buffer_finish(&bytes);
    tsr_buffer_finish(&first);
    tsr_buffer_finish(&second);
}
