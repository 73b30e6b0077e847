/** Reads a line of JSONL with the place of all its parts. JSON is YAML, so it is read as YAML, which keeps numbers as written and reports repeated keys. */
import { readYaml, type Reading } from '../document.ts'

export const readJson = (written: string): Reading => {
  // YAML would take the carriage return of a Windows line end for a line of its own.
  const text = written.replace(/\r$/, '')
  const reading = readYaml(text, undefined)
  try {
    JSON.parse(text)
    return reading
  } catch (error) {
    // Some messages have a position behind "at", others have none.
    const [, position] = / at position (\d+)/.exec((error as Error).message) ?? []
    const column = position === undefined ? (reading.faults[0]?.column ?? 1) : Number(position) + 1
    const message = 'is not JSON; write one object, its keys and texts in double quotes'
    return { ...reading, tree: undefined, faults: [{ line: 1, column, path: [], message }] }
  }
}
