/** `${NAME}` and `${NAME:-default}` inside one value of the file, replaced after YAML has been read: no variable can add structure. */

export type Environment = Readonly<Record<string, string | undefined>>

/** `$${` is a literal `${`. A reference that never closes, or has no proper name, matches without a name. */
const reference = /\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?/g

/** A whole value, or a whole part of an address, that a shell would take from the environment. */
const withoutBraces = /(?<![^/:@])\$([A-Z_][A-Z0-9_]{0,63})(?![^/:@?#.,])/g

/** Replaces every reference, and returns `fault; remedy` for each that cannot be replaced. As in a shell, a default also stands in for a variable that is set but empty. */
export const substitute = (text: string, env: Environment) => {
  const faults = Array.from(
    text.matchAll(withoutBraces),
    ([, name]) => `has $${name} without braces; write \${${name}} for the environment variable`,
  )
  const replaced = text.replaceAll(reference, (whole: string, name?: string, fallback?: string) => {
    if (whole === '$${') return '${'
    if (name === undefined) {
      faults.push(
        'holds a malformed reference; write ${NAME}, ${NAME:-default}, or $${ for a plain ${',
      )
      return ''
    }
    const value = Object.hasOwn(env, name) ? env[name] : undefined
    if (fallback !== undefined) return value === undefined || value === '' ? fallback : value
    if (value === undefined) {
      faults.push(
        `needs the environment variable ${name}, which is not set; set it or write \${${name}:-default}`,
      )
    }
    return value ?? ''
  })
  return { text: replaced, faults }
}
