/** `tollgate completion`: prints the script for a shell. The script calls `tollgate complete`, which prints each word that may follow, so it never lags behind. */
import type { Argument, Command, Option } from 'commander'
import type { Bans } from '../../admin/bans/operations.ts'
import type { ClientsPage } from '../../admin/clients/operations.ts'
import { ask, gatewayOf } from './asking.ts'
import type { Output } from '../edge.ts'
import { chosen, loadHttp, type Declaration } from '../program.ts'

export const completion: Declaration = (program, { once }) => {
  program
    .command('completion')
    .description('what a shell needs to complete commands, options and ids')
    .addArgument(chosen('<shell>', Object.keys(scripts)))
    .action(once(() => completionCommand))
  program.command('complete <line>', { hidden: true }).action(once(() => completeCommand))
}

/** A person who pressed a key waits no longer. */
const WITHIN_MS = 200

/** Prints nothing where it has no answer: a shell shows no faults. line: as far as it is written. */
async function completeCommand(
  { env, print }: Output,
  { line }: { readonly line: string },
  { parent: program }: Command,
): Promise<void> {
  if (program === null) return
  const words = line.split(/\s+/).slice(1)
  const typed = words.pop() ?? ''
  const { command, asked, operands, admin } = placeAfter(program, words)
  const help = command.createHelp()
  const found: Candidate[] = []
  if (asked === undefined && typed.startsWith('-'))
    for (const { long, description } of help.visibleOptions(command))
      if (long !== undefined && !words.includes(long)) found.push([long, description])
  if (asked === undefined && operands === 0)
    for (const each of help.visibleCommands(command)) found.push([each.name(), each.description()])
  const value = asked ?? command.registeredArguments[operands]
  if (value !== undefined)
    found.push(...(await valuesOf(value, command, { admin, env, start: typed })))
  for (const [word, meaning] of found)
    if (word.startsWith(typed) && /^[\w.:@+-]+$/.test(word)) print(`${word}\t${meaning}`)
}

/** Walks the words as the parser would. asked: the option whose value comes next. */
function placeAfter(program: Command, words: readonly string[]) {
  let command = program
  let asked: Option | undefined
  let operands = 0
  let admin: string | undefined
  for (const word of words) {
    const isValue = asked !== undefined
    if (asked?.long === '--admin') admin = word
    asked = isValue
      ? undefined
      : command.options.find(({ long, required }) => long === word && required)
    if (isValue || word.startsWith('-')) continue
    const next = operands === 0 ? command.commands.find((each) => each.name() === word) : undefined
    if (next === undefined) operands++
    else command = next
  }
  return { command, asked, operands, admin }
}

type Candidate = readonly [word: string, meaning: string]

/** Returns choices, or ids from a gateway. */
async function valuesOf(
  asked: Option | Argument,
  command: Command,
  { start, env, admin }: Pick<Output, 'env'> & { start: string; admin: string | undefined },
): Promise<Candidate[]> {
  if (asked.argChoices !== undefined) return asked.argChoices.map((word) => [word, ''])
  const [, name] = /\b(client|key-id)\b/.exec('flags' in asked ? asked.flags : asked.name()) ?? []
  if (name === undefined || !command.options.some(({ long }) => long === '--admin')) return []
  // What loading takes is no fault of the gateway's, and on a busy machine it takes longer than the answer.
  loadHttp()
  const call = { signal: AbortSignal.timeout(WITHIN_MS) }
  try {
    const gateway = gatewayOf({ env }, { admin })
    if (command.name() === 'lift') {
      const { bans } = await ask<Bans>(gateway, '/api/bans', call)
      return bans.map(({ key, client, reason }) => [key, reason ?? client ?? ''])
    }
    // The id of most keys begins with that of their client.
    const q = name === 'client' ? start : start.replace(/-?[^-]*$/, '')
    const query = new URLSearchParams({ sort: 'id', q }).toString()
    const { clients } = await ask<ClientsPage>(gateway, `/api/clients?${query}`, call)
    if (name === 'client') return clients.map(({ id, plan }) => [id, plan])
    return clients.flatMap(({ id, keys }) => keys.map((key): Candidate => [key.id, id]))
  } catch {
    return []
  }
}

/** Lines from `complete` are used as they are: no shell expands anything in them. Without any line, files are offered. */
const scripts = {
  bash: `# source <(tollgate completion bash)
_tollgate() {
  local line="\${COMP_LINE:0:COMP_POINT}" word="\${COMP_WORDS[COMP_CWORD]}" found
  # A colon or an equals sign begins a word of its own in bash.
  local typed="\${line##*[[:space:]]}"
  local before="\${typed%"$word"}"
  COMPREPLY=()
  while IFS=$'\\t' read -r found _; do
    COMPREPLY+=("\${found#"$before"}")
  done < <("$1" complete "$line" 2>/dev/null)
}
complete -o default -F _tollgate tollgate`,
  zsh: `#compdef tollgate
# source <(tollgate completion zsh), or a file _tollgate in $fpath
_tollgate() {
  local -a found
  local line word
  for line in "\${(@f)$("\${words[1]}" complete "\${(j: :)words[1,CURRENT]}" 2>/dev/null)}"; do
    word="\${line%%$'\\t'*}"
    [[ -n $word ]] && found+=("\${word//:/\\\\:}:\${line#*$'\\t'}")
  done
  if (( $#found )); then _describe tollgate found; else _files; fi
}
if [[ $funcstack[1] = _tollgate ]]; then _tollgate "$@"; else compdef _tollgate tollgate; fi`,
  fish: `# tollgate completion fish | source
function __tollgate_complete
    set -l words (commandline -opc)
    set -l found ($words[1] complete (commandline -cp) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c tollgate -f -a '(__tollgate_complete)'`,
}

type Shell = keyof typeof scripts

function completionCommand({ print }: Output, { shell }: { readonly shell: Shell }): void {
  print(scripts[shell])
}
