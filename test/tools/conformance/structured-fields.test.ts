import { expect, it } from 'vitest'
import { parseList } from '../../../src/tools/conformance/structured-fields.ts'

const plain = (text: string): string =>
  JSON.stringify(parseList(text)?.map((item) => [item.value, Object.fromEntries(item.parameters)]))

it.each([
  ['"minute";q=60;w=60, "day";q=1000', '[["minute",{"q":60,"w":60}],["day",{"q":1000}]]'],
  ['"a";  b ,\t1.5;c="x\\"y\\\\"', String.raw`[["a",{"b":"?1"}],[1.5,{"c":"x\"y\\"}]]`],
  ['*token/x;k=?0', '[["*token/x",{"k":"?0"}]]'],
  ['-12', '[[-12,{}]]'],
])('reads %s', (text, items) => expect(plain(text)).toBe(items))

it.each([
  '',
  '"a",',
  ',"a"',
  '"a" "b"',
  '"a',
  '"a";Q=1',
  '"a";q=',
  '1.2345',
  '"\u00e9"',
  '"a" ;q=1',
  '1234567890123456',
  '(a b)',
  '"\\x"',
])('refuses %j', (text) => expect(parseList(text)).toBeUndefined())
