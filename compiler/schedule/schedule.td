// SPDX-License-Identifier: Apache-2.0
//
// Schedule IR: dialect `tsched`. A `tsched.func` is a fusion group, a future kernel; an entry calls
// its groups with `tsched.call`. The rules of the kinds are checked in C (verify.c). The ops of
// plan.td choose groups, layouts and tiles before the groups exist.
#ifndef TSR_SCHEDULE_TD
#define TSR_SCHEDULE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tsched_Dialect : Dialect {
  let name = "tsched";
  let cppNamespace = "::tessera::schedule";
  let useDefaultTypePrinterParser = 1;
}

def Tsched_FuncOp : Op<Tsched_Dialect, "func", [FunctionOpInterface, IsolatedFromAbove]> {
  let summary = "defines a fusion group, which one kernel computes";
  let description = [{
    The body has Graph IR ops that compute the group's outputs from its inputs.

    ```mlir
    tsched.func @k0_matmul_add_relu(%a: tensor<64x64xf32>, %b: tensor<64x128xf32>, %c: tensor<128xf32>)
        -> tensor<64x128xf32> attributes {kind = "matmul", source = "default"} {
      %0 = tessera.matmul %a, %b : tensor<64x64xf32>, tensor<64x128xf32> -> tensor<64x128xf32>
      %1 = tessera.add %0, %c : tensor<64x128xf32>, tensor<128xf32> -> tensor<64x128xf32>
      %2 = tessera.relu %1 : tensor<64x128xf32>
      tsched.return %2 : tensor<64x128xf32>
    }
    ```

    kind    "map": elementwise ops over one shape, or a single transpose or reshape.
            "matmul", "reduce": one op of this kind, with epilogue fusion: elementwise ops follow it. In a reduce,
            elementwise ops may also come before it.
            "rows": reductions over the same dims, with elementwise ops before, between and after them.
            "pack": a prepacked tensor, which is computed once and not in each run.
            A group with one other op has the name of that op as its kind.
    source  the author of the choice: "default" (the cost model), "user" (a plan) or "autotune".
    tile    the tile sizes of the kernel; their meaning depends on the kernel family (compiler/tile/README.md). If a
            size is 0 or absent, the kernel's own model chooses it.
    flops, bytes  estimates for one run: floating-point operations, and bytes read and written.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
      StrAttr:$kind, OptionalAttr<StrAttr>:$source, OptionalAttr<I64ArrayAttr>:$tile,
      OptionalAttr<I64Attr>:$flops, OptionalAttr<I64Attr>:$bytes,
      OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Tsched_CallOp : Op<Tsched_Dialect, "call",
    [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a fusion group, or the kernel that it has become";
  let description = [{
    `%y = tsched.call @group(%x) : (tensor<4xf32>) -> tensor<4xf32>`
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyRankedTensor>:$inputs);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let assemblyFormat = "$callee `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
}

def Tsched_DimOp : Op<Tsched_Dialect, "dim", [Pure]> {
  let summary = "returns the size that the entry's open dim has in a call";
  let description = [{
    `%n = tsched.dim : tensor<i64>`

    Groups that compute rows of this dim take it as their last input.
  }];
  let results = (outs AnyRankedTensor:$size);
  let assemblyFormat = "attr-dict `:` type($size)";
}

def Tsched_PackOp : Op<Tsched_Dialect, "pack", [Pure, HasParent<"FuncOp">]> {
  let summary = "prepacks a matrix in the order in which products read it";
  let description = [{
    The result consists of strips. A strip has as many columns as fit into 64 bytes, and all rows one after the
    other. If the last strip is wider than the rest of the matrix, zeros fill it. All dims of the operand before
    the last one count as one dim. The formula is
    `result[s][k][c] = matrix[k][s * width + c]`,
    or, with `transpose`, `matrix[s * width + c][k]`.

    `%p = tsched.pack %w : tensor<768x100xf32> -> tensor<7x768x16xf32>`

    pairs  packs pairs of rows, for dot products of bf16: result[s][k][2 c + i] = matrix[2 k + i][s * width + c], where
           64 bytes have space for `width` pairs. If the number of rows is odd, zeros complete the last pair.

    words  packs the words (`tessera.words`) of each four rows of i8 or ui8: the strips are those of the matrix of
           words.

    Strips of f32 contain a matrix of bf16 or f16 converted to f32.
  }];
  let arguments = (ins AnyRankedTensor:$matrix, DefaultValuedAttr<BoolAttr, "false">:$transpose,
      DefaultValuedAttr<BoolAttr, "false">:$pairs, DefaultValuedAttr<BoolAttr, "false">:$words);
  let results = (outs AnyRankedTensor:$strips);
  let assemblyFormat = "$matrix attr-dict `:` type($matrix) `->` type($strips)";
}

def Tsched_UnpackOp : Op<Tsched_Dialect, "unpack", [Pure, HasParent<"FuncOp">]> {
  let summary = "returns the matrix that strips contain";
  let description = [{
    The result is the matrix that `tsched.pack` packed. Only the matmul of the group, or a conv2d without
    groups, uses it, as its second operand; the matrix is therefore never unpacked in memory.

    `%w = tsched.unpack %p : tensor<7x768x16xf32> -> tensor<768x100xf32>`

    For a matmul, a matrix of bf16 or f16 may have strips of f32, and a matrix of f32 may have strips of bf16 or
    f16.
  }];
  let arguments = (ins AnyRankedTensor:$strips, DefaultValuedAttr<BoolAttr, "false">:$pairs);
  let results = (outs AnyRankedTensor:$matrix);
  let assemblyFormat = "$strips attr-dict `:` type($strips) `->` type($matrix)";
}

def Tsched_ReturnOp : Op<Tsched_Dialect, "return", [Pure, Terminator, ParentOneOf<["FuncOp", "ModuleOp"]>]> {
  let summary = "returns the outputs of a fusion group, or the kernels of a plan";
  let description = [{
    The form in a `tsched.func` is `tsched.return %0 : tensor<4xf32>`. The form in a `tsched.module` is
    `tsched.return %f`, where every operand is a `!tsched.func`.
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

include "compiler/schedule/plan.td"

#endif
