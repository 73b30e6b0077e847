/** Passes on a worker's output in whole lines, so that lines of several workers never mix. */

/** A line that never ends is cut here. */
const LINE_CHARS = 256 * 1024

/** write: takes whole lines with their ends. */
export function createLineRelay(write: (lines: string) => void) {
  let begun = ''
  return {
    take: (text: string) => {
      const end = text.lastIndexOf('\n') + 1
      if (end > 0) {
        write(begun + text.slice(0, end))
        begun = ''
      }
      begun += text.slice(end)
      if (begun.length < LINE_CHARS) return
      write(`${begun}\n`)
      begun = ''
    },
    /** Passes on the incomplete last line. */
    end: () => {
      if (begun !== '') write(`${begun}\n`)
      begun = ''
    },
  }
}
