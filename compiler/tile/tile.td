// SPDX-License-Identifier: Apache-2.0
//
// Tile IR: dialect `tile`. One tile.func is one kernel: a grid of independent programs over flat
// buffers. Its body has ops of MLIR's scf.for, arith, math and vector dialects on scalars and 1-D
// vectors, and the ops of this file for all other purposes. No op depends on a target. The rules
// are checked in C (compiler/tile/verify.c).
#ifndef TSR_TILE_TD
#define TSR_TILE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::tessera::tile";
  let useDefaultTypePrinterParser = 1;
}

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;
class Tile_CheckedOp<string mnemonic, list<Trait> traits = []> : Tile_Op<mnemonic, traits> {
  let hasVerifier = 1;
}

//===--- types ---------------------------------------------------------------------------------===//

def Tile_SharedType : TypeDef<Tile_Dialect, "Shared"> {
  let mnemonic = "shared";
  let summary = "a ring of matrices in the memory that the threads of a program share";
  let description = [{
    `!tile.shared<4x128x64xbf16>`: stages, rows, columns, element type. Stage number s lies in the
    place of number s modulo the stages.
  }];
  let parameters = (ins "int64_t":$stages, "int64_t":$rows, "int64_t":$columns, "mlir::Type":$element);
  let hasCustomAssemblyFormat = 1;
}

def Tile_FragmentType : TypeDef<Tile_Dialect, "Fragment"> {
  let mnemonic = "fragment";
  let summary = "a matrix spread over the registers of a program's threads";
  let description = [{
    `!tile.fragment<128x256xf32, acc>`: rows, columns, element type, and what of tile.mma it is:
    `acc` the sum, `a` the first factor. Which thread holds what is the target's business.
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$columns, "mlir::Type":$element, StringRefParameter<"">:$role);
  let hasCustomAssemblyFormat = 1;
}

def Tile_Buffer : StaticShapeMemRefOf<[F64, F32, BF16, F16, I64, I32, I8]>;
def Tile_Element : AnyTypeOf<[F64, F32, BF16, F16, I64, I32, I8]>;
def Tile_Value : AnyTypeOf<[Tile_Element, VectorOfRankAndType<[1], [F64, F32, BF16, F16, I64, I32, I8]>],
    "a scalar or a 1-D vector of f64, f32, bf16, f16, i64, i32 or i8">;
def Tile_Float : AnyTypeOf<[F64, F32, VectorOfRankAndType<[1], [F64, F32]>],
    "a scalar or a 1-D vector of f64 or f32">;
def Tile_Mask : VectorOfRankAndType<[1], [I1]>;

def Tile_Dense : Attr<CPred<"::llvm::isa<::mlir::DenseElementsAttr>($_self)">, "dense elements"> {
  let storageType = "::mlir::DenseElementsAttr";
  let returnType = "::mlir::DenseElementsAttr";
  let convertFromStorage = "$_self";
}

// The constraints of tile.load and tile.store on their types.
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

def Tile_Lanes : VectorOfRankAndType<[1], [F64, F32, I64, I32, I8, I1]>;

def Tile_FuncOp : Tile_Op<"func", [IsolatedFromAbove, Symbol, SingleBlock]> {
  let summary = "a kernel: `grid` independent programs";
  let description = [{
    `tile.func @scale(%x: memref<64xf32>, %y: memref<64xf32>) grid 4 { ... tile.return }`

    Buffers are dense and row-major. The body is run once for each program of the grid; which runs
    when, and where, is unknown. Two programs never write the same element.

    outputs   how many arguments are written, the last ones; what calls the kernel needs it.
    in_place  inputs that an output of the same type may lie over.
    faults    the kernel can report a bad index.
    prepacks  it writes a tensor in another form; it runs again only after the tensor has changed.
    flops, bytes  estimates for one run of the whole grid.

    `tile.func @product(...) grid 64 warps 8 registers 168 shared 196608 { ... }`

    With `warps`, so many warps compute a program together (4, 8 or 12); scalars are the same in all
    of them, and matrices are fragments. Only such programs use shared memory, copies and products.
    A program means what its ops do one after the other; that copies run ahead of products, in threads
    of their own where the target likes that, shows in no result.

    registers  no thread takes more.
    shared     no program takes more bytes of shared memory.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$grid, OptionalAttr<I64Attr>:$warps,
      OptionalAttr<I64Attr>:$registers, OptionalAttr<I64Attr>:$shared, OptionalAttr<I64Attr>:$outputs,
      OptionalAttr<I64ArrayAttr>:$in_place, OptionalAttr<UnitAttr>:$faults, OptionalAttr<UnitAttr>:$prepacks,
      OptionalAttr<I64Attr>:$flops, OptionalAttr<I64Attr>:$bytes);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
}

def Tile_ReturnOp : Tile_Op<"return", [Pure, Terminator, HasParent<"FuncOp">]> {
  let summary = "end of a program";
  let description = [{
    Stands last in a tile.func, without operands: results are the buffers written.
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_ProgramIdOp : Tile_Op<"program_id", [Pure]> {
  let summary = "the number of this program, 0 ... grid - 1";
  let description = [{
    All else is the same in every program of the grid.
  }];
  let results = (outs Index:$result);
  let assemblyFormat = "attr-dict";
}

def Tile_ProgramEndOp : Tile_Op<"program_end", [Pure]> {
  let summary = "the number behind the last program that is run at once with this one";
  let description = [{
    Of CPUs. A body that has it is run once for all programs that a thread takes at once, from
    tile.program_id on, and does what they all have to do: where they are neighbours in memory, in one walk.
    How many those are is unknown.
  }];
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
  let description = [{
    Part of the device code, aligned to 64 bytes; the result has the elements' shape and type.
  }];
  let arguments = (ins Tile_Dense:$value);
  let results = (outs Tile_Buffer:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def Tile_ViewOp : Tile_CheckedOp<"view", [Pure]> {
  let summary = "an argument's elements in another dense, row-major shape";
  let description = [{
    Operand and result have one element type and as many elements; nothing is moved.
  }];
  let arguments = (ins Tile_Buffer:$buffer);
  let results = (outs Tile_Buffer:$result);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($result)";
}

def Tile_SegmentOp : Tile_CheckedOp<"segment", [Pure]> {
  let summary = "the buffers of the segment that a program works on";
  let description = [{
    `%number, %size, %x, %y = tile.segment %program of %x0, %y0, %x1, %y1 {first = [0, 3]}
     : memref<900xf32>, memref<900xbf16>, memref<64xf32>, memref<64xbf16> -> memref<900xf32>, memref<900xbf16>`

    A kernel of several segments, of as many buffers each; all buffers of a segment have as many elements.
    Segment i is of programs first[i] up to the next one's first. Results are the program's number within
    its segment, how many elements the segment's buffers have, and these buffers, typed as the largest
    segment's: there is nothing after the segment's elements.
  }];
  let arguments = (ins Index:$program, Variadic<Tile_Buffer>:$buffers, I64ArrayAttr:$first);
  let results = (outs Index:$number, Index:$size, Variadic<Tile_Buffer>:$parts);
  let assemblyFormat = "$program `of` $buffers attr-dict `:` type($buffers) `->` type($parts)";
}

def Tile_LocalOp : Tile_Op<"local"> {
  let summary = "a buffer of this program's own, uninitialised, aligned to 64 bytes";
  let description = [{
    On the program's stack, or in a GPU's local memory: each program has its own, gone when it ends.
  }];
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

def Tile_GatherOp : Tile_CheckedOp<"gather"> {
  let summary = "elements from a flat offset each";
  let description = [{
    Lane i is element `offsets[i]` of the buffer in row-major order. All offsets lie in the buffer.
  }];
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead]>:$buffer, VectorOfRankAndType<[1], [Index]>:$offsets);
  let results = (outs Tile_Value:$result);
  let assemblyFormat = "$buffer `[` $offsets `]` attr-dict `:` type($buffer) `,` type($offsets) `->` type($result)";
}

def Tile_ScatterOp : Tile_CheckedOp<"scatter"> {
  let summary = "elements to a flat offset each";
  let description = [{
    `tile.scatter %v, %x[%offsets] : vector<32xi32>, memref<256xi32>, vector<32xindex>`

    Lane i becomes element `offsets[i]` of the buffer in row-major order. All offsets lie in the buffer;
    lanes of one offset have one value.
  }];
  let arguments = (ins Tile_Value:$value, Arg<Tile_Buffer, "", [MemWrite]>:$buffer, VectorOfRankAndType<[1], [Index]>:$offsets);
  let assemblyFormat = "$value `,` $buffer `[` $offsets `]` attr-dict `:` type($value) `,` type($buffer) `,` type($offsets)";
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
  let description = [{
    A hint that no result depends on; `offset` counts elements, as tile.load's. `later`: to the
    second-level cache alone, for what is read after much else.
  }];
  // MemWrite: an op that only reads and has no result would be dropped.
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead, MemWrite]>:$buffer, Index:$offset, UnitAttr:$later);
  let assemblyFormat = "$buffer `[` $offset `]` attr-dict `:` type($buffer)";
}

def Tile_UntilAlignedOp : Tile_Op<"until_aligned", [Pure]> {
  let summary = "how many elements lie between a flat offset and the next multiple of 64 bytes";
  let description = [{
    Of CPUs. 0 where an address of 64 bytes begins there: TSR_BUFFER_ALIGN_BYTES. Buffers that are parts
    of others begin where those end.
  }];
  let arguments = (ins Arg<Tile_Buffer, "", []>:$buffer, Index:$offset);
  let results = (outs Index:$result);
  let assemblyFormat = "$buffer `[` $offset `]` attr-dict `:` type($buffer)";
}

def Tile_FetchOp : Tile_Op<"fetch", [PredOpTrait<"elements of both buffers are of one type",
    CPred<"::mlir::cast<::mlir::MemRefType>($_op.getOperand(0).getType()).getElementType() == "
          "::mlir::cast<::mlir::MemRefType>($_op.getOperand(2).getType()).getElementType()">>]> {
  let summary = "begins to copy elements to a local buffer";
  let description = [{
    `tile.fetch %x[%offset] to %l[%at] elements 2048 : memref<64x2048xbf16>, memref<4096xbf16>`

    On a GPU. What comes next goes on meanwhile; the elements are there after tile.fetched. The local
    buffer has `tile.own`: each lane copies what it will load itself, and only a load of as many
    elements at the same place finds them. Elements whose mask bit is off become zero, and their
    memory is not touched.
  }];
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead]>:$from, Index:$offset, Arg<Tile_Buffer, "", [MemWrite]>:$to, Index:$at,
      Optional<Tile_Mask>:$mask, ConfinedAttr<I64Attr, [IntPositive]>:$elements);
  let assemblyFormat = [{
    $from `[` $offset `]` `to` $to `[` $at `]` (`mask` $mask^ `:` type($mask))? `elements` $elements attr-dict `:`
    type($from) `,` type($to)
  }];
}

def Tile_FetchedOp : Tile_Op<"fetched", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "what tile.fetch began to copy is there, but for the last ones";
  let description = [{
    `tile.fetched but 2`: what was begun before the last two tile.fetched, this one is the first of
    them, may still be on its way. 0: nothing is.
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$but);
  let assemblyFormat = "`but` $but attr-dict";
}

def Tile_AddBesideOp : Tile_Op<"add_beside", [AllTypesMatch<["value", "result"]>]> {
  let summary = "the sum over the programs that run side by side";
  let description = [{
    `tile.add_beside %v by %l : vector<768xf32>, memref<768xf32>`

    On a GPU, of a kernel with `tile.beside`: each of its programs that share a block has the sum of
    what they have, in their order. All of them come to it. The local buffer has `tile.own`, as many
    elements as the vector, and nothing else in it.
  }];
  let arguments = (ins VectorOfRankAndType<[1], [F32]>:$value, Arg<Tile_Buffer, "", [MemRead, MemWrite]>:$local);
  let results = (outs VectorOfRankAndType<[1], [F32]>:$result);
  let assemblyFormat = "$value `by` $local attr-dict `:` type($value) `,` type($local)";
}

def Tile_GeluOp : Tile_Op<"gelu", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "x times the normal distribution's cumulative function at x";
  let description = [{
    Scalar or vector of floats: x (1 + erf(x / sqrt(2))) / 2, without the cancellation below 0; with
    `tanh` by the usual approximation, x / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x^3))); with `slope`
    the former's derivative.
  }];
  let arguments = (ins Tile_Float:$input, UnitAttr:$tanh, UnitAttr:$slope);
  let results = (outs Tile_Float:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Tile_DotOp : Tile_CheckedOp<"dot", [Pure, AllTypesMatch<["sum", "result"]>]> {
  let summary = "sums, and the products of two pairs of bf16 added to each";
  let description = [{
    `%r = tile.dot %a, %b, %sum : vector<2xbf16>, vector<32xbf16>, vector<16xf32>`

    Lane i is fma(a[2 i], b[2 i], fma(a[2 i + 1], b[2 i + 1], sum[i])), each rounded to f32 once, to
    nearest. An `a` of two elements is the pair of every lane. A machine that has an instruction for
    it (has_dot of a target) takes denormal numbers for zero, in what is given and in either sum.
    For CPUs.
  }];
  let arguments = (ins VectorOfRankAndType<[1], [BF16]>:$a, VectorOfRankAndType<[1], [BF16]>:$b,
      VectorOfRankAndType<[1], [F32]>:$sum);
  let results = (outs VectorOfRankAndType<[1], [F32]>:$result);
  let assemblyFormat = "$a `,` $b `,` $sum attr-dict `:` type($a) `,` type($b) `,` type($sum)";
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

//===--- between the threads of a program ------------------------------------------------------===//

def Tile_BarrierOp : Tile_CheckedOp<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "no thread of the program goes on before all have come here; each then sees what the others wrote";
  let description = [{
    `tile.barrier`, without operands: all threads of the program come to the same one.
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_ShuffleOp : Tile_CheckedOp<"shuffle", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "element i is element `from[i]` of its warp's";
  let description = [{
    `tile.shuffle %x, %from : vector<64xf32>, vector<64xi32>`

    A vector lies in warps of 32 elements; `from` counts in the warp of the element it is for, modulo
    32.
  }];
  let arguments = (ins Tile_Lanes:$input, VectorOfRankAndType<[1], [I32]>:$from);
  let results = (outs Tile_Lanes:$result);
  let assemblyFormat = "$input `,` $from attr-dict `:` type($input) `,` type($from)";
}

def Tile_ButterflyOp : Tile_CheckedOp<"butterfly", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "element i is element `i xor distance`";
  let description = [{
    `tile.butterfly %x, 16 : vector<32xf32>`. The distance is a power of two below 32, so that an
    element comes from its own warp.
  }];
  let arguments = (ins Tile_Lanes:$input, I64Attr:$distance);
  let results = (outs Tile_Lanes:$result);
  let assemblyFormat = "$input `,` $distance attr-dict `:` type($input)";
}

def Tile_VoteOp : Tile_CheckedOp<"vote", [Pure]> {
  let summary = "what a warp's 32 conditions come to: `any`, `all`, or all of them as bits";
  let description = [{
    `tile.vote "any" %c : vector<32xi1> -> i1`, `tile.vote "ballot" %c : vector<32xi1> -> i32`: bit i
    is element i.
  }];
  let arguments = (ins StrAttr:$how, VectorOfRankAndType<[1], [I1]>:$input);
  let results = (outs AnyTypeOf<[I1, I32]>:$result);
  let assemblyFormat = "$how $input attr-dict `:` type($input) `->` type($result)";
}

//===--- shared memory and copies --------------------------------------------------------------===//

def Tile_AllocSharedOp : Tile_CheckedOp<"alloc_shared"> {
  let summary = "a ring of matrices in shared memory, uninitialised, as long as the program runs";
  let description = [{
    `tile.alloc_shared swizzle = "xor" : !tile.shared<4x128x64xbf16>`

    none  rows lie one after the other.
    xor   columns lie in blocks of 128 bytes, a block's rows one after the other; the 16 bytes number
          c of row r lie in place c xor (r mod 8) of it, so that 8 rows of a column meet no bank
          twice. Rows are whole blocks, and 8 or a multiple of them.

    All rings that copies go to have as many stages.
  }];
  let arguments = (ins StrAttr:$swizzle);
  let results = (outs Arg<Tile_SharedType, "", [MemAlloc]>:$result);
  let assemblyFormat = "`swizzle` `=` $swizzle attr-dict `:` qualified(type($result))";
}

def Tile_AsyncCopyOp : Tile_CheckedOp<"async_copy"> {
  let summary = "begins to copy a part of a buffer to a stage";
  let description = [{
    `tile.async_copy %a[%row, %column], %ring stage %s : memref<512x256xbf16>, !tile.shared<4x128x64xbf16>`

    The part begins at the indices and is as large as a matrix of the ring; what is not in the buffer
    is zero. Dimensions before the last two have one index each; the last index is a multiple of 16
    bytes, a matrix of the ring one of 2048. A program numbers its stages 0, 1, 2
    and so on, and begins copies to each stage once, all of them in one place.
  }];
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead]>:$buffer, Variadic<Index>:$indices,
      Arg<Tile_SharedType, "", [MemWrite]>:$ring, Index:$stage);
  let assemblyFormat = "$buffer `[` $indices `]` `,` $ring `stage` $stage attr-dict `:` type($buffer) `,` qualified(type($ring))";
}

def Tile_WaitAsyncOp : Tile_CheckedOp<"wait_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the copies to a stage are done, and seen by all threads";
  let description = [{
    `stage` is an index. Stands before what reads the stage.
  }];
  let arguments = (ins Index:$stage);
  let assemblyFormat = "`stage` $stage attr-dict";
}

def Tile_ReleaseOp : Tile_CheckedOp<"release", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "the program reads a stage no more: later copies may take its place";
  let description = [{
    `stage` is an index. Stands behind the last read of what was waited for.
  }];
  let arguments = (ins Index:$stage);
  let assemblyFormat = "`stage` $stage attr-dict";
}

//===--- matrices in registers -----------------------------------------------------------------===//

def Tile_FillOp : Tile_CheckedOp<"fill", [Pure]> {
  let summary = "a fragment of one value";
  let description = [{
    `tile.fill %zero : f32 -> !tile.fragment<...>`: every element of the fragment is the scalar.
  }];
  let arguments = (ins AnyTypeOf<[F32, F64]>:$value);
  let results = (outs Tile_FragmentType:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` qualified(type($result))";
}

def Tile_MmaOp : Tile_CheckedOp<"mma", [AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc + A B, on the matrix units";
  let description = [{
    `tile.mma %a, %b, %acc stage %s {transpose_b} : !tile.shared<...>, !tile.shared<...>, !tile.fragment<...>`

    A is a stage of a ring or a fragment `a`, M x K; B a stage of a ring, K x N; transposed, they lie
    as K x M and N x K. bf16 and f16 are multiplied exactly and summed in f32; of f32 10 bits
    of the fraction are used (tf32), rounded to nearest, or cut where wgmma reads what threads copied. wgmma takes them as M x K and N x K alone. In which order products
    are summed up is the unit's business.
  }];
  let arguments = (ins Arg<AnyTypeOf<[Tile_SharedType, Tile_FragmentType]>, "", [MemRead]>:$a,
      Arg<Tile_SharedType, "", [MemRead]>:$b, Tile_FragmentType:$acc, Index:$stage,
      UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Tile_FragmentType:$result);
  let assemblyFormat = "$a `,` $b `,` $acc `stage` $stage attr-dict `:` qualified(type($a)) `,` qualified(type($b)) `,` qualified(type($acc))";
}

def Tile_LoadSharedOp : Tile_CheckedOp<"load_shared"> {
  let summary = "a stage as a fragment";
  let description = [{
    The elements of stage `stage` of the ring, an index, in the fragment that the result declares; with
    `transpose` the stage's rows are the columns of a fragment `acc`.
  }];
  let arguments = (ins Arg<Tile_SharedType, "", [MemRead]>:$ring, Index:$stage, UnitAttr:$transpose);
  let results = (outs Tile_FragmentType:$result);
  let assemblyFormat = "$ring `stage` $stage attr-dict `:` qualified(type($ring)) `->` qualified(type($result))";
}

def Tile_StoreSharedOp : Tile_CheckedOp<"store_shared"> {
  let summary = "a fragment to a stage, rounded to its element type";
  let description = [{
    Threads other than the one that stored an element see it after tile.barrier.
  }];
  let arguments = (ins Tile_FragmentType:$value, Arg<Tile_SharedType, "", [MemWrite]>:$ring, Index:$stage);
  let assemblyFormat = "$value `,` $ring `stage` $stage attr-dict `:` qualified(type($value)) `,` qualified(type($ring))";
}

def Tile_LoadFragmentOp : Tile_CheckedOp<"load_fragment"> {
  let summary = "a fragment from a buffer, as a function of it and of sums reads it";
  let description = [{
    ```mlir
    %r = tile.load_fragment %b[%row, %column] through %ring : memref<512x256xbf16>, !tile.shared<2x128x64xbf16> -> !tile.fragment<128x256xf32, acc>
    …
    %y = tile.map %x at [%row, %column] with %r : …
    tile.store_fragment %y, %c[%row, %column] through %ring : …
    ```

    It is asked for where the op stands, and comes by the ring that the result leaves by, to the places
    that it leaves from: of one `tile.map`, whose result is stored through this ring alone. Elements that
    are not in the buffer are 0.
  }];
  let arguments = (ins Arg<Tile_Buffer, "", [MemRead]>:$buffer, Variadic<Index>:$indices,
      Arg<Tile_SharedType, "", [MemWrite]>:$through);
  let results = (outs Tile_FragmentType:$result);
  let assemblyFormat = [{
    $buffer `[` $indices `]` `through` $through attr-dict `:`
    type($buffer) `,` qualified(type($through)) `->` qualified(type($result))
  }];
}

def Tile_MapOp : Tile_Op<"map", [AllTypesMatch<["value", "result"]>, RecursiveMemoryEffects, SingleBlock]> {
  let summary = "an elementwise function of a fragment and of where its elements lie";
  let description = [{
    ```mlir
    %y = tile.map %x at [%row, %column] : !tile.fragment<128x256xf32, acc> {
    ^bb0(%i: vector<64xindex>, %j: vector<64xindex>, %e: vector<64xf32>):
      %0 = arith.negf %e : vector<64xf32>
      tile.yield %0 : vector<64xf32>
    }
    ```

    The body is run for the elements, 64 at a time, in no order; which 64, is unknown. `i` and `j` are
    their row and column, counted from what stands behind `at`. The body stores nothing. `with %r`: the
    body has a fourth argument, of elements of a tile.load_fragment or of another computed fragment. `transposed`: the fragment's
    columns are counted by `i`, its rows by `j`.
  }];
  let arguments = (ins Tile_FragmentType:$value, Index:$row, Index:$column, Optional<Tile_FragmentType>:$other,
      UnitAttr:$transposed);
  let results = (outs Tile_FragmentType:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $value `at` `[` $row `,` $column `]` (`with` $other^)? attr-dict `:` qualified(type($value))
    (`,` qualified(type($other))^)? $body
  }];
  let hasRegionVerifier = 1;
}

def Tile_SumProgramsOp : Tile_CheckedOp<"sum_programs"> {
  let summary = "the sum of a fragment over the programs that run together, a part of it for each";
  let description = [{
    `tile.sum_programs %x : !tile.fragment<128x128xf32, acc> -> !tile.fragment<128x32xf32, acc>`

    With `tile.together = n` of the kernel, programs n i to n i + n - 1 run at the same time, and each
    sums up the fragments of all of them, from the first program's on, for its part of the columns: the
    first one for the first n-th of them, and so on. All of them come to it equally often.
  }];
  let arguments = (ins Tile_FragmentType:$value);
  let results = (outs Tile_FragmentType:$result);
  let assemblyFormat = "$value attr-dict `:` qualified(type($value)) `->` qualified(type($result))";
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, HasParent<"MapOp">]> {
  let summary = "the result of tile.map's body";
  let description = [{
    One scalar or vector, of the type that the body gives for each element. Stands last in tile.map.
  }];
  let arguments = (ins Tile_Lanes:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def Tile_StoreFragmentOp : Tile_CheckedOp<"store_fragment", [AttrSizedOperandSegments]> {
  let summary = "a fragment to a buffer, rounded to its element type";
  let description = [{
    `tile.store_fragment %x, %c[%row, %column] through %ring : !tile.fragment<128x256xf32, acc>, memref<512x256xbf16>, !tile.shared<2x128x64xbf16>`

    Elements that are not in the buffer are left out. `through`: rows of it go by way of a ring, whole,
    which is faster; a ring of its own, of rows as the fragment has, 128 bytes each, and swizzle xor; a
    tile.load_fragment may come by it. `transposed`: the fragment's columns are rows of the buffer; by
    way of a ring of 16-bit elements alone.
  }];
  let arguments = (ins Tile_FragmentType:$value, Arg<Tile_Buffer, "", [MemWrite]>:$buffer, Variadic<Index>:$indices,
      Optional<Tile_SharedType>:$through, UnitAttr:$transposed);
  let assemblyFormat = [{
    $value `,` $buffer `[` $indices `]` (`through` $through^)? attr-dict `:`
    qualified(type($value)) `,` type($buffer) (`,` qualified(type($through))^)?
  }];
}

def Tile_AttendOp : Tile_CheckedOp<"attend", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "attention on the matrix units: a tile of a head's queries, over all keys that they see";
  let description = [{
    `tile.attend "forward" (%q, %k, %v, %o, %l) at [%head, %group, %row] through (%rq, %rk, %ro) {scale = 0.125, causal} : (...), (...)`

    Buffers: q [heads, S, D], k and v [groups, T, D], the result o as q, and perhaps l [heads, S] of f32, the
    logarithm of the sum of exponentials of each query. The tile is the queries of head `head` from `row` on,
    as many as the ring of queries has rows; what is not in the buffer is left out. Its keys and values are
    those of `group`. o = softmax(scale q k^T) v; with `causal` query i sees the keys j <= i + T - S. A query
    that sees no key gives 0.

    Rings: of queries; of keys and values, which follow each other in its stages; what o is stored through.
    `turns`: warp groups take turns at beginning their products. Without wgmma there are two: o is stored through
    that of queries, which has one stage; a warp has 16 or 32 rows of it.

    With `dropout` weights fall as those of tessera.attention of the same `stream` do. Behind all other buffers,
    forward and backward, are i64 [B], the number of the first head of each item of the batch; i64, the step; i64,
    the seed. Backward, t is then times 1 - dropout, and s is without a factor of 1 / (1 - dropout), too.

    Products are the unit's, in f32; exponentials and logarithms are its approximations; the weights of values
    are rounded to the buffers' type. Blocks of keys are taken from the last one on.

    `tile.attend "backward" (%q, %k, %v, %g, %l, %t, %n, %s, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rc, %rs, %rr) {scale = 0.125, causal} : (...), (...)`

    What 128 keys of head `group` from `row` on give to the gradients, where as many queries as keys are: dk and dv
    of them whole, from the heads of queries from `head` on that share them; dq of all queries in parts, which are
    summed up in s, f32 as q, without the scale. g is the gradient of o; l and t [heads, S] are f32: the logarithm
    of forward and the sum of g o over a head's numbers, the first divided by -scale, the second negated. n
    [heads, S / step] of i32, steps of 128 queries for heads of 64 numbers and 64 for 128, counts the tiles of keys
    that have added to s there; it is 0 before the kernel. Programs add in one order, so that no bit depends on when
    they run; with `causal` programs of one head run from its last keys to its first.

    Rings: of the keys and values; of queries and g, two stages of a step's; of 128 rows by a step's queries; of s,
    f32; of l and t, f32 without swizzle. The op stands in the function's block, alone; 8 warps.

    `tile.attend "backward_queries" (%q, %k, %v, %g, %l, %t, %dq) at [%head, %group, %row] through (%rq, %rg, %rk, %rv) {scale = 0.125} : (...), (...)`
    `tile.attend "backward_keys" (%q, %k, %v, %g, %l, %t, %dk, %dv) at [%head, %group, %row] through (%rk, %rv, %rq, %rg, %rr) {scale = 0.125} : (...), (...)`

    The same without wgmma, by two kernels that add to nothing of each other's: dq whole, of as many queries of
    head `head` from `row` on as the first ring has rows; dk and dv whole, of as many keys of head `group`, from the
    heads of queries from `head` on that share them. Such a tile is a part of 128. Rings: two of what stays, one stage
    each; two of what comes by, some rows at a time; of l and t of these, if they are queries. With one more, of two
    stages and f32 without swizzle, half of the warps has dv and the other half dk of the same keys: it takes the
    weights from there, and is one step behind.
  }];
  let arguments = (ins StrAttr:$how, Variadic<Tile_Buffer>:$buffers, Variadic<Index>:$indices,
      Variadic<Tile_SharedType>:$rings, F64Attr:$scale, UnitAttr:$causal, UnitAttr:$turns,
      OptionalAttr<F64Attr>:$dropout, OptionalAttr<I64Attr>:$stream);
  let assemblyFormat = [{
    $how `(` $buffers `)` `at` `[` $indices `]` `through` `(` $rings `)` attr-dict `:`
    `(` type($buffers) `)` `,` `(` qualified(type($rings)) `)`
  }];
}

#endif
