/** What Connection says of the next message. */
import { expect, it } from 'vitest'
import { persists } from '../../../src/core/http/field-lines.ts'

it.each<[string | undefined, boolean, boolean]>([
  [undefined, true, false],
  ['close', false, false],
  ['x-a ,\tCLOSE', false, false],
  ['keep-alive', true, true],
  ['x-a, Keep-Alive , x-b', true, true],
  ['keep-alive, close', false, false],
  // No option of the list, which is written with commas.
  [': CLOSE', true, false],
  ['closed', true, false],
  ['x keep-alive', true, false],
])('%j: the connection goes on in 1.1 %s, in 1.0 %s', (connection, inOne, inZero) => {
  expect([persists(connection, '1.1'), persists(connection, '1.0')]).toEqual([inOne, inZero])
})
