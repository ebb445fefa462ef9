# The package and a shell for development. It was not built here: no nixpkgs was in reach.
# Batsim is yours to add, such as from nur-kapack: `batfill run` takes the `batsim` on the PATH.
{
  description = "EASY-backfilling schedulers for the Batsim simulator, and a compiled engine that replays the same decisions";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      each =
        make:
        nixpkgs.lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (system: make nixpkgs.legacyPackages.${system});

      procset =
        ps:
        ps.buildPythonPackage rec {
          pname = "procset";
          version = "1.0";
          pyproject = true;
          src = ps.fetchPypi {
            inherit pname version;
            hash = "sha256-EJIaT+kCgittTJRpGrvxllopvIEVchXxqQkjBeIfwUY=";
          };
          build-system = [ ps.setuptools ];
        };

      dependencies =
        ps: with ps; [
          click
          defusedxml
          msgspec
          numpy
          orjson
          (procset ps)
          pyyaml
          pyzmq
        ];
    in
    {
      packages = each (pkgs: {
        default = pkgs.python3.pkgs.buildPythonApplication {
          pname = "batfill";
          version = "0.1.0";
          pyproject = true;
          src = self;
          build-system = with pkgs.python3.pkgs; [
            hatchling
            numba # compiles the kernels; the installed package does without
          ];
          dependencies = dependencies pkgs.python3.pkgs;
          pythonImportsCheck = [ "batfill" ];
          meta = {
            license = pkgs.lib.licenses.lgpl3Plus;
            mainProgram = "batfill";
          };
        };
      });

      # `python scripts/kernels.py` compiles the kernels, `python -m batfill` runs the checkout, `pytest tests/core` tests it.
      devShells = each (pkgs: {
        default = pkgs.mkShell {
          packages = [
            (pkgs.python3.withPackages (
              ps: dependencies ps ++ (with ps; [ hatchling hypothesis numba psutil pytest pytest-xdist ])
            ))
          ];
          shellHook = "export PYTHONPATH=$PWD/schedulers:$PWD";
        };
      });
    };
}
