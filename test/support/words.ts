/** Lists as text: written as lists they would take a line for each entry. */

/** The words of a text. */
export const words = (text: string): string[] => text.trim().split(/\s+/)

/** Header fields as Node.js has them: of `A: 1 | B:` they are A, 1, B and nothing. */
export const fields = (text: string): string[] =>
  text.split(/\s*\|\s*/).flatMap((field) => {
    const [name = '', value = ''] = field.split(/: ?(.*)/s, 2)
    return [name.trim(), value]
  })
