/** A line of JSONL with the place of all its parts. JSON is YAML, so it is read as that, which keeps numbers as written and tells repeated keys. */
import { readYaml, type Reading } from '../document.ts'

export const readJson = (written: string): Reading => {
  // Of Windows line ends; to YAML it would be a line of its own.
  const text = written.replace(/\r$/, '')
  const reading = readYaml(text, undefined)
  try {
    JSON.parse(text)
    return reading
  } catch (error) {
    // What stands behind "at" in some of the messages; some have none.
    const [, position] = / at position (\d+)/.exec((error as Error).message) ?? []
    const column = position === undefined ? (reading.faults[0]?.column ?? 1) : Number(position) + 1
    const message = 'is not JSON; write one object, its keys and texts in double quotes'
    return { ...reading, tree: undefined, faults: [{ line: 1, column, path: [], message }] }
  }
}
