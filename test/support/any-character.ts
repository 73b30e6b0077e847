import * as fc from 'fast-check'

/** Of all of Unicode, low ones more often; fast-check's own 'binary' takes seconds to make. */
export const anyCharacter = fc
  .nat(0x10ffff - 0x800)
  .map((at) => String.fromCodePoint(at < 0xd800 ? at : at + 0x800))
