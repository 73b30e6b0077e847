/** Converts a line that JSON.parse has read into the fields that scan() gives. */
import { NOTHING, NUMBER, ownFields, STRING, TRUE, type Fields } from './fields.ts'

export function readParsed(line: Readonly<Record<string, unknown>>, into: Fields): void {
  const texts: Buffer[] = []
  let end = 0
  for (const [field, name] of ownFields.entries()) {
    const value = Object.hasOwn(line, name) ? line[name] : undefined
    into.kinds[field] = NOTHING
    if (value === true) into.kinds[field] = TRUE
    if (typeof value === 'number') {
      into.kinds[field] = NUMBER
      into.numbers[field] = value
    }
    if (typeof value !== 'string') continue
    const text = Buffer.from(value)
    texts.push(text)
    into.kinds[field] = STRING
    into.starts[field] = end
    into.ends[field] = end += text.length
  }
  into.bytes = Buffer.concat(texts)
}
