/** `tollgate completion`: prints the script for a shell. The script calls `tollgate complete`, so it never lags behind. */
import { OK } from '../terminal/fault.ts'
import type { Output } from './asking.ts'

type Shell = 'bash' | 'zsh' | 'fish'

/** Lines from `complete` are used as they are: no shell expands anything in them. Without any line, files are offered. */
const scripts: Readonly<Record<Shell, string>> = {
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

export function completionCommand({ print }: Output, { shell }: { readonly shell: Shell }): number {
  print(scripts[shell])
  return OK
}
