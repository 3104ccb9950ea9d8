// SPDX-License-Identifier: Apache-2.0
//
// Tile IR: dialect `tile`. One tile.func is one kernel: a grid of independent programs over flat
// buffers. Inside, MLIR's scf.for, arith, math and vector dialects on scalars and 1-D vectors; the
// ops here are what those leave out. Nothing here knows a target.
#ifndef TSR_TILE_TD
#define TSR_TILE_TD

include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::tessera::tile";
}

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

def Tile_Buffer : StaticShapeMemRefOf<[F64, F32, BF16, F16, I64, I32, I8]>;
def Tile_Element : AnyTypeOf<[F64, F32, BF16, F16, I64, I32, I8]>;
def Tile_Value : AnyTypeOf<[Tile_Element, VectorOfRankAndType<[1], [F64, F32, BF16, F16, I64, I32, I8]>],
    "a scalar or a 1-D vector of f64, f32, bf16, f16, i64, i32 or i8">;
def Tile_Mask : VectorOfRankAndType<[1], [I1]>;

def Tile_Dense : Attr<CPred<"::llvm::isa<::mlir::DenseElementsAttr>($_self)">, "dense elements"> {
  let storageType = "::mlir::DenseElementsAttr";
  let returnType = "::mlir::DenseElementsAttr";
  let convertFromStorage = "$_self";
}

// What tile.load and tile.store ask of their types.
class Tile_Moves<string value, string buffer> : PredOpTrait<
    "value and buffer have one element type",
    CPred<"::mlir::getElementTypeOrSelf($_op." # value # ".getType()) == "
          "::mlir::getElementTypeOrSelf($_op." # buffer # ".getType())">>;
class Tile_Masks<string value, int mask> : PredOpTrait<
    "the mask has a lane for each of the vector",
    CPred<"$_op.getNumOperands() <= " # mask # " || "
          "(::llvm::isa<::mlir::VectorType>($_op." # value # ".getType()) && "
          "::llvm::cast<::mlir::VectorType>($_op." # value # ".getType()).getShape() == "
          "::llvm::cast<::mlir::VectorType>($_op.getOperand(" # mask # ").getType()).getShape())">>;

def Tile_FuncOp : Tile_Op<"func", [IsolatedFromAbove, Symbol, SingleBlock]> {
  let summary = "a kernel: `grid` independent programs";
  let description = [{
    `tile.func @scale(%x: memref<64xf32>, %y: memref<64xf32>) grid 4 { ... tile.return }`

    Buffers are dense and row-major. The body is run once for each program of the grid; which runs
    when, and where, is unknown. Two programs never write the same element.

    outputs   how many arguments are written, the last ones; what calls the kernel needs it.
    in_place  inputs that an output of the same type may lie over.
    faults    the kernel can report a bad index.
    prepares  it brings a tensor into another form: its launch counts until the tensor changes.
    flops, bytes  estimates for one run of the whole grid.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$grid, OptionalAttr<I64Attr>:$outputs,
      OptionalAttr<I64ArrayAttr>:$in_place, OptionalAttr<UnitAttr>:$faults, OptionalAttr<UnitAttr>:$prepares,
      OptionalAttr<I64Attr>:$flops, OptionalAttr<I64Attr>:$bytes);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
}

def Tile_ReturnOp : Tile_Op<"return", [Pure, Terminator, HasParent<"FuncOp">]> {
  let summary = "end of a program";
  let assemblyFormat = "attr-dict";
}

def Tile_ProgramIdOp : Tile_Op<"program_id", [Pure]> {
  let summary = "the number of this program, 0 ... grid - 1";
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def Tile_ConstantOp : Tile_Op<"constant", [Pure, PredOpTrait<
    "the elements are those of the buffer's type",
    CPred<"::llvm::cast<ConstantOp>($_op).getValue().getElementType() == "
          "::llvm::cast<::mlir::ShapedType>($_op.getResult(0).getType()).getElementType() && "
          "::llvm::cast<ConstantOp>($_op).getValue().getType().getShape() == "
          "::llvm::cast<::mlir::ShapedType>($_op.getResult(0).getType()).getShape()">>]> {
  let summary = "a read-only buffer known at build time";
  let arguments = (ins Tile_Dense:$value);
  let results = (outs Tile_Buffer:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def Tile_LocalOp : Tile_Op<"local"> {
  let summary = "a buffer of this program's own, uninitialised, aligned to 64 bytes";
  let results = (outs Arg<Tile_Buffer, "", [MemAlloc]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tile_LoadOp : Tile_Op<"load", [Tile_Moves<"getResult(0)", "getOperand(0)">, Tile_Masks<"getResult(0)", 2>]> {
  let summary = "elements from a flat offset on";
  let description = [{
    Lane i of a vector is element `offset + i` of the buffer in row-major order. Lanes whose mask
    bit is off are zero, and their memory is not touched.
  }];
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead]>:$buffer, Index:$offset,
      Optional<Tile_Mask>:$mask);
  let results = (outs Tile_Value:$result);
  let assemblyFormat = [{
    $buffer `[` $offset `]` (`mask` $mask^ `:` type($mask))? attr-dict `:`
    type($buffer) `->` type($result)
  }];
}

def Tile_StoreOp : Tile_Op<"store", [Tile_Moves<"getOperand(0)", "getOperand(1)">, Tile_Masks<"getOperand(0)", 3>]> {
  let summary = "elements to a flat offset on; see tile.load";
  let description = [{
    `streamed`: past the caches, for what will not be read soon. The address must then be a multiple
    of 64 bytes, or of the vector's size where that is less, and there is no mask.
  }];
  let arguments = (ins Tile_Value:$value, Arg<Tile_Buffer, "", [MemWrite]>:$buffer, Index:$offset,
      Optional<Tile_Mask>:$mask, UnitAttr:$streamed);
  let assemblyFormat = [{
    $value `,` $buffer `[` $offset `]` (`mask` $mask^ `:` type($mask))? attr-dict `:`
    type($value) `,` type($buffer)
  }];
}

def Tile_PrefetchOp : Tile_Op<"prefetch"> {
  let summary = "brings the cache line at a flat offset nearer; any offset is allowed";
  // MemWrite: an op that only reads and has no result would be dropped.
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead, MemWrite]>:$buffer, Index:$offset);
  let assemblyFormat = "$buffer `[` $offset `]` attr-dict `:` type($buffer)";
}

def Tile_GeluOp : Tile_Op<"gelu", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "x times the normal distribution's cumulative function at x";
  let description = [{
    `tanh`: by the usual approximation, x / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x^3))).
  }];
  let arguments = (ins Tile_Value:$input, UnitAttr:$tanh);
  let results = (outs Tile_Value:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Tile_CheckIndexOp : Tile_Op<"check_index"> {
  let summary = "i1: is 0 <= value < limit; if not, the fault record is set";
  let description = [{
    The record names argument number `argument` of the kernel, the flat `element` of it the value
    was read from, the value and the limit. The first fault of a launch is kept.
  }];
  let arguments = (ins I64:$value, Index:$element, I64Attr:$argument, I64Attr:$limit);
  let results = (outs I1:$result);
  let assemblyFormat = "$value `below` $limit `of` $argument `[` $element `]` attr-dict";
}

#endif
