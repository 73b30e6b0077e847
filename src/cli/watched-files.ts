/** The files of a configuration: itself, and each that it names. */
import { dirname, resolve } from 'node:path'
import { matching } from '../config/clients/files.ts'
import type { Config } from '../config/config.ts'

/** In a Config each path has a name that ends in File, and each list of patterns one that ends in Files. */
export function filesOf(file: string, { clients: _clients, ...settings }: Config): string[] {
  const folder = dirname(file)
  const found = new Set([resolve(file)])
  const collect = (value: unknown, name: string): void => {
    if (typeof value === 'string') {
      if (name.endsWith('Files')) named(value).forEach(add)
      else if (name.endsWith('File')) add(value)
    } else if (Array.isArray(value)) for (const item of value) collect(item, name)
    else if (typeof value === 'object' && value !== null)
      for (const [key, inner] of Object.entries(value)) collect(inner, key)
  }
  const named = (pattern: string): readonly string[] => {
    try {
      return matching(pattern, folder)
    } catch {
      // Loading the configuration reports it.
      return []
    }
  }
  const add = (path: string): void => void found.add(resolve(folder, path))
  collect(settings, '')
  return [...found]
}
